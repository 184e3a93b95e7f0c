// kill -9 at random points of saving: whatever comes, the newest checkpoint that was said to be
// saved, or a later one, is there, whole and right, and the next program goes on from it.
//
//   bazel run //tests/soak:saves              50 kills
//   bazel run //tests/soak:saves -- 1000 7    as many, at moments of seed 7
//
// `bazel test //...` runs a small sample.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "ddp/checkpoint/checkpointer.h"
#include "ddp/checkpoint/testing.h"
#include "launch/testing/subprocess.h"
#include "tests/soak/saver.h"

namespace ddp {
namespace {

int num_kills = 50;
unsigned seed = 1;

int64_t LastSaved(const launch::ProgramOutput& output) {
  const std::string line = output.out_lines().back();
  return std::stoll(line.substr(line.find(' ')));
}

TEST(Saves, SurviveKills) {
  const std::string directory = NewDirectory("saves");
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> delays(0, 100'000);
  const auto group = InitProcessGroup({});
  for (int i = 0; i < num_kills; ++i) {
    launch::Subprocess saver({"tests/soak/saver", directory});
    saver.WaitForLines(2);
    std::this_thread::sleep_for(std::chrono::microseconds(delays(random)));
    saver.Signal(SIGKILL);
    const launch::ProgramOutput output = saver.Wait();
    ASSERT_EQ(output.exit_code, 128 + SIGKILL) << output.err;

    Checkpointer checkpointer(*group, {.directory = directory});
    const Checkpoint checkpoint = *checkpointer.Load(Resume::kMust);
    EXPECT_TRUE(checkpointer.passed_over().empty()) << checkpointer.passed_over()[0];
    EXPECT_GE(checkpoint.step, LastSaved(output));
    ExpectSame(checkpoint, CheckpointOf(checkpoint.step, kSaverElements));
  }
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) ddp::num_kills = std::atoi(argv[1]);
  if (argc > 2) ddp::seed = std::strtoul(argv[2], nullptr, 10);
  return RUN_ALL_TESTS();
}
