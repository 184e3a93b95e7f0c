#include "launch/trainer/rank_signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <string>

namespace launch {
namespace {

using namespace std::chrono_literals;

TEST(RankSignalsTest, StopSignalsAreToldByName) {
  RankSignals signals({.stop = {SIGUSR1, SIGTERM}});
  for (const auto& [signal, name] :
       {std::pair(SIGUSR1, "SIGUSR1"), std::pair(SIGTERM, "SIGTERM")}) {
    std::promise<std::string> told;
    signals.OnStop([&](const std::string& why) { told.set_value(why); });
    kill(getpid(), signal);
    EXPECT_EQ(told.get_future().get(), name);
    signals.OnStop(nullptr);
  }
}

TEST(RankSignalsTest, TheDeadlineStopsOnce) {
  RankSignals signals({.deadline = ddp::Clock::now() + 20ms});
  std::promise<std::string> told;
  signals.OnStop([&](const std::string& why) { told.set_value(why); });  // twice would throw
  EXPECT_EQ(told.get_future().get(), "the end of the time for this job");
}

TEST(RankSignalsTest, Sigusr2AsksForTheFlightRecord) {
  RankSignals signals({.stop = {SIGUSR1}});
  std::promise<void> written;
  signals.OnFlightRecord([&] { written.set_value(); });
  kill(getpid(), SIGUSR2);
  written.get_future().get();
}

TEST(RankSignalsTest, OneSignalCannotMeanBoth) {
  EXPECT_THROW(RankSignals({.stop = {SIGUSR2}}), std::invalid_argument);
  EXPECT_NO_THROW(RankSignals());  // nothing is left of it
}

TEST(RankSignalsDeathTest, BeforeThereIsAnythingToKeepTheProcessAsksToBeStartedAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const RankSignals signals({.stop = {SIGTERM}});
        kill(getpid(), SIGTERM);
        for (;;) pause();
      },
      testing::ExitedWithCode(75), "stopped by SIGTERM before training began");
}

TEST(RankSignalsTest, SignalsAreAsBeforeAfterwards) {
  { const RankSignals signals({.stop = {SIGUSR1}}); }
  struct sigaction action;
  sigaction(SIGUSR1, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGUSR1));
}

}  // namespace
}  // namespace launch
