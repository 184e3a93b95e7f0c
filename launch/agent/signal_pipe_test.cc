#include "launch/agent/signal_pipe.h"

#include <gtest/gtest.h>

#include <csignal>
#include <optional>
#include <stdexcept>

namespace launch {
namespace {

void Handler(int) {}

TEST(SignalPipe, SignalsComeInOrder) {
  SignalPipe signals({SIGUSR1, SIGUSR2});
  raise(SIGUSR2);
  raise(SIGUSR1);
  EXPECT_EQ(signals.Take()->number, SIGUSR2);
  EXPECT_EQ(signals.Take()->number, SIGUSR1);
  EXPECT_FALSE(signals.Take().has_value());
}

TEST(SignalPipe, WhatWasThereBeforeIsThereAfterwards) {
  std::signal(SIGUSR1, Handler);
  {
    SignalPipe signals({SIGUSR1, SIGTERM, SIGUSR1});
    raise(SIGUSR1);
    EXPECT_TRUE(signals.Take().has_value());
    EXPECT_FALSE(signals.Take().has_value());
  }
  EXPECT_EQ(std::signal(SIGUSR1, SIG_DFL), Handler);
  EXPECT_EQ(std::signal(SIGTERM, SIG_DFL), SIG_DFL);
}

TEST(SignalPipe, IgnoredSignalsStayIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  SignalPipe signals({SIGHUP});
  raise(SIGHUP);
  EXPECT_FALSE(signals.Take().has_value());
  std::signal(SIGHUP, SIG_DFL);
}

TEST(SignalPipe, OneMayLiveAtATime) {
  const SignalPipe signals({SIGUSR1});
  EXPECT_THROW(SignalPipe({SIGUSR2}), std::logic_error);
}

}  // namespace
}  // namespace launch
