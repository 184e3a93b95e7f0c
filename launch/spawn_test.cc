// Spawn as its users meet it: whole processes, their exit codes and their last words.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "launch/testing/listener.h"
#include "launch/testing/subprocess.h"

namespace launch {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

ProgramOutput RunMode(const std::string& mode, const std::string& rank = "1") {
  return RunProgram({"launch/testing/spawn_program", mode, rank});
}

std::map<std::string, std::string> RankEnvironment(int rank, int port) {
  return {{"RANK", std::to_string(rank)},
          {"WORLD_SIZE", "2"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)}};
}

TEST(Spawn, RanksMeetAtTheStore) {
  const ProgramOutput output = RunMode("greet");
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.err, "");
  EXPECT_THAT(output.out_lines(),
              UnorderedElementsAre("rank 0 of 2: hello from 0", "rank 0 of 2: hello from 1",
                                   "rank 1 of 2: hello from 0", "rank 1 of 2: hello from 1",
                                   "launcher: 0"));
}

TEST(Spawn, AnExceptionIsToldOnceInTheLastLine) {
  const ProgramOutput output = RunMode("throw");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.err, "rank 1 failed: boom, in two lines\n");
  EXPECT_EQ(output.out, "launcher: 1\n");
}

TEST(Spawn, AnyRankMayThrow) {
  EXPECT_EQ(RunMode("throw", "0").err, "rank 0 failed: boom, in two lines\n");
}

TEST(Spawn, OtherExceptionsAreFailuresToo) {
  const ProgramOutput output = RunMode("throw_int");
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.last_error(), "rank 1 failed: an exception that isn't a std::exception");
}

TEST(Spawn, LosingAPeerIsToldWhenNothingElseIs) {
  EXPECT_EQ(RunMode("lose_peer").last_error(), "rank 1 failed: lost rank 0: connection closed");
}

TEST(Spawn, SignalsAndExitCodesPassThrough) {
  const ProgramOutput crashed = RunMode("segv");
  EXPECT_EQ(crashed.exit_code, 139);
  EXPECT_EQ(crashed.last_error(), "rank 1 failed: killed by signal 11 (Segmentation fault)");
  const ProgramOutput left = RunMode("exit");
  EXPECT_EQ(left.exit_code, 5);
  EXPECT_EQ(left.last_error(), "rank 1 failed: exit code 5");
}

TEST(Spawn, RanksOfAnotherLauncherJoinByEnvironment) {
  const int port = FreePort();
  const std::vector<std::string> command = {"launch/testing/spawn_program", "greet"};
  Subprocess one(command, RankEnvironment(1, port));
  Subprocess zero(command, RankEnvironment(0, port));
  const ProgramOutput first = zero.Wait();
  const ProgramOutput second = one.Wait();
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(first.out, "rank 0 of 2: hello from 0\nrank 0 of 2: hello from 1\n");
  EXPECT_EQ(second.out, "rank 1 of 2: hello from 0\nrank 1 of 2: hello from 1\n");
}

TEST(Spawn, WithoutAnAgentARankTellsItsOwnFailure) {
  const ProgramOutput output =
      RunProgram({"launch/testing/spawn_program", "throw", "0"}, RankEnvironment(0, FreePort()));
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.last_error(), "rank 0 failed: boom, in two lines");
}

TEST(Spawn, APortInUseIsNamed) {
  const Listener listener;
  const ProgramOutput output =
      RunProgram({"launch/testing/spawn_program", "greet"}, RankEnvironment(0, listener.port()));
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr("rank 0 failed: "));
  EXPECT_THAT(output.last_error(), HasSubstr(fmt::format("port {}", listener.port())));
  EXPECT_THAT(output.last_error(), HasSubstr("in use"));
}

TEST(Spawn, TasksOfASlurmStepAreRanks) {
  std::map<std::string, std::string> environment = {{"SLURM_JOB_ID", "7"},
                                                    {"SLURM_STEP_ID", "0"},
                                                    {"SLURM_STEP_NUM_TASKS", "2"},
                                                    {"SLURM_STEP_NODELIST", "node1"},
                                                    {"SLURM_STEP_TASKS_PER_NODE", "2"},
                                                    {"SLURM_GTIDS", "0,1"},
                                                    {"SLURM_NODEID", "0"},
                                                    {"MASTER_PORT", std::to_string(FreePort())}};
  environment["SLURM_PROCID"] = environment["SLURM_LOCALID"] = "1";
  Subprocess one({"launch/testing/spawn_program", "greet"}, environment);
  environment["SLURM_PROCID"] = environment["SLURM_LOCALID"] = "0";
  const ProgramOutput zero = RunProgram({"launch/testing/spawn_program", "greet"}, environment);
  EXPECT_EQ(zero.out, "rank 0 of 2: hello from 0\nrank 0 of 2: hello from 1\n") << zero.err;
  EXPECT_EQ(one.Wait().out, "rank 1 of 2: hello from 0\nrank 1 of 2: hello from 1\n");
}

TEST(Spawn, RanksMustKnowWhereToMeet) {
  const ProgramOutput output =
      RunProgram({"launch/testing/spawn_program", "greet"}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_EQ(output.err,
            "rank 0 failed: nobody says where the ranks meet: MASTER_ADDR is not set; set "
            "MASTER_ADDR and MASTER_PORT\n");
}

// Ranks under mpirun meet over MPI: launch/mpirun_test.sh.
TEST(Spawn, AnotherMpisLauncherIsToldFromOurs) {
  const ProgramOutput output =
      RunProgram({"launch/testing/spawn_program", "greet"}, {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), testing::StartsWith("rank 0 failed: MPI "));
}

TEST(Spawn, ABadEnvironmentIsNamed) {
  const ProgramOutput output =
      RunProgram({"launch/testing/spawn_program", "greet"}, {{"RANK", "1"}});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr("WORLD_SIZE is not set, but RANK is"));
}

}  // namespace
}  // namespace launch
