// Runs that are asked to stop: all ranks save after the same step, and another run goes on to the
// weights of one that nobody stopped.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "ddp/checkpoint/checkpoint.h"
#include "ddp/store/socket.h"
#include "launch/testing/ranks.h"
#include "launch/testing/subprocess.h"
#include "tests/checkpoints/runs.h"

namespace launch {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// Long enough to be stopped in the middle.
const Arguments kLong = {"launch/train",   "--model=mlp",      "--hidden=16",
                         "--data=digits",  "--momentum=0.9",   "--checkpoint_every=0",
                         "--log_every=10", "--max_steps=4000", "--nproc_per_node=3"};

// Whether the process has a handler for the signal.
bool IsCaught(pid_t pid, int signal) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("SigCgt:")) continue;
    return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  return false;
}

// Where the run in `folder` stopped.
int64_t StoppedAt(const std::string& folder) {
  const std::vector<std::string> checkpoints = ddp::ListCheckpoints(folder);
  EXPECT_THAT(checkpoints, SizeIs(1));
  return checkpoints.empty() ? -1 : ddp::ReadCheckpoint(checkpoints[0]).step;
}

std::string Undisturbed() {
  const std::string weights = NewPath("undisturbed.safetensors");
  EXPECT_EQ(RunProgram(kLong + Arguments{"--save=" + weights}).exit_code, 0);
  return Read(weights);
}

TEST(Stop, AnyRankStopsAllAndAnotherRunGoesOn) {
  const std::string undisturbed = Undisturbed();
  std::mt19937 random(1);
  for (const int signal : {SIGUSR1, SIGTERM, SIGUSR1}) {
    const std::string folder = NewPath("stopped");
    const std::string weights = NewPath("weights.safetensors");
    const Arguments command = kLong + Arguments{"--checkpoint_dir=" + folder, "--save=" + weights};
    Subprocess run(command);
    run.WaitForLines(3);
    const std::vector<pid_t> ranks = RanksOf(run.pid());
    ASSERT_THAT(ranks, SizeIs(3));
    // One of them, or all at slightly different times.
    kill(ranks[random() % 3], signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
    if (random() % 2 == 0) {
      for (const pid_t rank : ranks) kill(rank, signal);
    }
    const ProgramOutput output = run.Wait();
    EXPECT_EQ(output.exit_code, 75) << output.err;
    const int64_t step = StoppedAt(folder);
    EXPECT_THAT(output.out, HasSubstr(fmt::format("stopped after step {}/4000", step)));

    const ProgramOutput rest = RunProgram(command);
    EXPECT_EQ(rest.exit_code, 0) << rest.err;
    EXPECT_THAT(rest.out, HasSubstr(fmt::format("step {}, epoch", step)));
    EXPECT_TRUE(Read(weights) == undisturbed);
  }
}

// As a scheduler does at a preemption.
TEST(Stop, TermToTheLauncherIsPassedOn) {
  const std::string folder = NewPath("stopped");
  Subprocess run(kLong + Arguments{"--checkpoint_dir=" + folder});
  run.WaitForLines(3);
  run.Signal(SIGTERM);
  const ProgramOutput output = run.Wait();
  EXPECT_EQ(output.exit_code, 75) << output.err;
  EXPECT_GT(StoppedAt(folder), 0);
}

TEST(Stop, TheEndOfTheJobIsNotAwaited) {
  const std::string folder = NewPath("stopped");
  const ProgramOutput output =
      RunProgram(kLong + Arguments{"--max_steps=1000000", "--checkpoint_dir=" + folder,
                                   "--stop_before_end=110s"},
                 {{"SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 120)}});
  EXPECT_EQ(output.exit_code, 75) << output.err;
  EXPECT_THAT(output.err, HasSubstr("asked to stop by the end of the time for this job"));
  EXPECT_GT(StoppedAt(folder), 0);
}

TEST(Stop, AnEvaluationIsBrokenOff) {
  const std::string folder = NewPath("stopped");
  // Steps take no time beside the evaluations.
  Subprocess run(kLong + Arguments{"--hidden=2048,2048", "--batch_size=1", "--max_steps=1000",
                                   "--eval_every=1", "--checkpoint_dir=" + folder});
  run.WaitForLines(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  for (const pid_t rank : RanksOf(run.pid())) kill(rank, SIGUSR1);
  const ProgramOutput output = run.Wait();
  EXPECT_EQ(output.exit_code, 75) << output.err;
  const int64_t step = StoppedAt(folder);
  EXPECT_GT(step, 0);
  EXPECT_THAT(output.out, Not(HasSubstr(fmt::format("step {}/1000  test loss", step))));
}

// Of two ranks, one that waits for the other.
TEST(Stop, NothingIsSavedBeforeTrainingBegins) {
  const std::string folder = NewPath("stopped");
  const std::string port = std::to_string(ddp::FreePort("127.0.0.1"));
  Subprocess rank(
      kLong + Arguments{"--checkpoint_dir=" + folder},
      {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}});
  // It has handlers as soon as it has read its flags.
  while (!IsCaught(rank.pid(), SIGUSR1)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  rank.Signal(SIGUSR1);
  const ProgramOutput output = rank.Wait();
  EXPECT_EQ(output.exit_code, 75);
  EXPECT_EQ(output.last_error(), "stopped by SIGUSR1 before training began");
}

// There is nothing that it could be asked to save.
TEST(Stop, WithoutAFolderSignalsEndTheRun) {
  Subprocess run(kLong);
  run.WaitForLines(3);
  kill(RanksOf(run.pid())[1], SIGUSR1);
  const ProgramOutput output = run.Wait();
  EXPECT_EQ(output.exit_code, 128 + SIGUSR1);
}

}  // namespace
}  // namespace launch
