// //launch:run as its users meet it, on one node: small shell programs as ranks.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/testing/subprocess.h"

namespace launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

using Arguments = std::vector<std::string>;

Arguments RunShell(Arguments flags, const std::string& script) {
  flags.insert(flags.begin(), "launch/run");
  flags.insert(flags.end(), {"/bin/sh", "-c", script});
  return flags;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string TempPath(const std::string& name) { return testing::TempDir() + "/" + name; }

TEST(Run, StartsAnyProgram) {
  const ProgramOutput output = RunProgram({"launch/run", "--nproc_per_node=3", "printenv", "RANK"});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.err, "");
  EXPECT_THAT(output.out_lines(), UnorderedElementsAre("0", "1", "2"));
}

TEST(Run, HelpIsNoError) {
  const ProgramOutput output = RunProgram({"launch/run", "--help"});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.out, HasSubstr("--max_restarts"));
}

TEST(Run, ABadCommandLineIsTold) {
  const ProgramOutput output = RunProgram({"launch/run", "--nproc_per_node=two", "true"});
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_EQ(output.err, "--nproc_per_node=two: expected a whole number\n");
}

TEST(Run, ARestartStartsAllAgain) {
  const ProgramOutput output = RunProgram(
      RunShell({"--nproc_per_node=2", "--max_restarts=2"},
               "echo $RANK.$DDP_RESTART_COUNT.$TORCHELASTIC_RESTART_COUNT;"
               "test $DDP_RESTART_COUNT = 1 && exit 0; test $RANK = 1 && exit 3; sleep 1000"));
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.err, "rank 1 failed: exit code 3; restart 1 of 2\n");
  EXPECT_THAT(output.out_lines(), testing::IsSupersetOf({"1.0.0", "0.1.1", "1.1.1"}));
}

TEST(Run, RestartsEnd) {
  const ProgramOutput output = RunProgram(RunShell({"--max_restarts=2"}, "kill -9 $$"));
  EXPECT_EQ(output.exit_code, 137);
  EXPECT_EQ(output.last_error(),
            "rank 0 failed: killed by signal 9 (Killed) (restarts so far: 2, as many as allowed)");
}

TEST(Run, RestartsEndWithoutProgress) {
  // Comes to step 10 in the first attempt, and never further.
  const ProgramOutput output = RunProgram(RunShell(
      {"--max_restarts=100"}, "echo progress 10 >/dev/fd/$DDP_REPORT_FD; echo attempt; exit 4"));
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_EQ(output.last_error(),
            "rank 0 failed: exit code 4 (no progress beyond step 10 in 3 attempts)");
  EXPECT_EQ(output.out_lines().size(), 4u);
}

TEST(Run, ProgressLetsRestartsGoOn) {
  const ProgramOutput output =
      RunProgram(RunShell({"--max_restarts=8"},
                          "echo progress $DDP_RESTART_COUNT >/dev/fd/$DDP_REPORT_FD; "
                          "test $DDP_RESTART_COUNT = 8 || exit 1"));
  EXPECT_EQ(output.exit_code, 0) << output.err;
}

TEST(Run, RequeueIsNoReasonForARestart) {
  const ProgramOutput output = RunProgram(RunShell({"--max_restarts=5"}, "echo once; exit 75"));
  EXPECT_EQ(output.exit_code, 75);
  EXPECT_EQ(output.out, "once\n");
}

TEST(Run, ASignalIsNoReasonForARestart) {
  Subprocess run(RunShell({"--max_restarts=5"}, "echo $$; exec sleep 1000"));
  run.WaitForLines(1);
  run.Signal(SIGTERM);
  const ProgramOutput output = run.Wait();
  EXPECT_EQ(output.exit_code, 143);
  EXPECT_EQ(output.out_lines().size(), 1u);
}

TEST(Run, TheGracePeriodIsForSaving) {
  const std::string deaf = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
  Subprocess run(RunShell({"--grace=100ms"}, deaf));
  run.WaitForLines(1);
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait().exit_code, 143);
}

TEST(Run, TheStopSignalIsForTheRanks) {
  Subprocess run(RunShell({"--stop_signal=TERM"},
                          "trap 'exit 75' TERM; echo ready; while :; do sleep "
                          "0.01; done"));
  run.WaitForLines(1);
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait().exit_code, 75);
}

TEST(Run, TheErrorFileSaysHowItFailed) {
  const std::string path = TempPath("error.json");
  const auto run = [&](const std::string& script) {
    return RunProgram(RunShell({"--nproc_per_node=2"}, script), {{"DDP_ERROR_FILE", path}})
        .exit_code;
  };
  EXPECT_EQ(run("test $RANK = 0 || exit 3; exec sleep 1000"), 3);
  const auto json = nlohmann::json::parse(Read(path));
  EXPECT_EQ(json["exit_code"], 3);
  EXPECT_EQ(json["reason"], "rank 1 failed: exit code 3");
  EXPECT_EQ(json["failed_rank"], 1);
  EXPECT_EQ(json["ranks"].size(), 2u);
  EXPECT_EQ(run("exit 0"), 0);
  EXPECT_FALSE(std::filesystem::exists(path)) << "left from the job before";
}

TEST(Run, AnErrorFileThatCannotBeWrittenHidesNothing) {
  const ProgramOutput output =
      RunProgram(RunShell({"--error_file=/no/such/folder/e.json"}, "exit 3"));
  EXPECT_EQ(output.exit_code, 3);
  EXPECT_THAT(output.err, HasSubstr("/no/such/folder/e.json"));
  EXPECT_EQ(output.last_error(), "rank 0 failed: exit code 3");
}

TEST(Run, LinesCanBeginWithTheRank) {
  const ProgramOutput output = RunProgram(
      RunShell({"--nproc_per_node=2", "--log_prefix"}, "echo one; printf two; echo err >&2"));
  EXPECT_THAT(output.out_lines(), UnorderedElementsAre("[0] one", "[0] two", "[1] one", "[1] two"));
  EXPECT_THAT(output.err, testing::AnyOf("[0] err\n[1] err\n", "[1] err\n[0] err\n"));
}

TEST(Run, LogsOfEachRankAndRestartAreKept) {
  const std::string folder = TempPath("run/logs");
  const Arguments command =
      RunShell({"--nproc_per_node=2", "--max_restarts=1", "--log_prefix", "--log_dir=" + folder},
               "echo out; echo err >&2; test $DDP_RESTART_COUNT = 1 || exit 1; sleep 0");
  for (const std::string times : {"once", "requeued"}) {
    const ProgramOutput output = RunProgram(command);
    EXPECT_EQ(output.exit_code, 0);
    EXPECT_THAT(output.err, HasSubstr("what each rank prints is also in " + folder));
    EXPECT_THAT(output.out, HasSubstr("[1] out\n"));
  }
  for (const int rank : {0, 1}) {
    EXPECT_EQ(Read(fmt::format("{}/rank{}.r1.log", folder, rank)), "out\nerr\nout\nerr\n");
    EXPECT_THAT(Read(fmt::format("{}/rank{}.r0.log", folder, rank)), HasSubstr("out\n"));
  }
}

TEST(Run, AFolderForLogsThatCannotBeMadeIsNamed) {
  const ProgramOutput output = RunProgram(RunShell({"--log_dir=/proc/nowhere"}, "true"));
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr("/proc/nowhere"));
}

// Each attempt has a store of its own: what the one before has left there is gone.
TEST(Run, EachAttemptMeetsAtANewStore) {
  const ProgramOutput output = RunProgram(
      RunShell({"--max_restarts=1"}, "echo $DDP_STORE_HOSTED; test $DDP_RESTART_COUNT = 1"));
  const std::vector<std::string> addresses = output.out_lines();
  ASSERT_EQ(addresses.size(), 2u);
  EXPECT_NE(addresses[0], addresses[1]);
}

TEST(Run, RanksKeepTheMaskOfTheScheduler) {
  const ProgramOutput output =
      RunProgram({"taskset", "1", "launch/run", "--nproc_per_node=2", "sh", "-c", "taskset -p $$"});
  for (const std::string& line : output.out_lines()) EXPECT_THAT(line, HasSubstr("mask: 1"));
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1) {
    EXPECT_THAT(output.err, HasSubstr("2 threads or ranks share one of this machine's"));
  }
}

}  // namespace
}  // namespace launch
