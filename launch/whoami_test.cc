// whoami as its users meet it: started by a launcher, with its answer and exit code.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "launch/testing/subprocess.h"

namespace launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::map<std::string, std::string> kRank = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};

TEST(Whoami, SaysWhoAndWhy) {
  const ProgramOutput output = RunProgram({"launch/whoami"}, kRank);
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.out, AllOf(StartsWith("rank         1 of 4\n"), HasSubstr("RANK=1")));
}

TEST(Whoami, AsJson) {
  const ProgramOutput output = RunProgram({"launch/whoami", "--json", "--launcher=none"}, kRank);
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(output.out)["why"], "--launcher=none");
}

TEST(Whoami, AWorldOfAnotherSizeIsAnError) {
  EXPECT_EQ(RunProgram({"launch/whoami", "--expect_world=4"}, kRank).exit_code, 0);
  const ProgramOutput output = RunProgram({"launch/whoami", "--expect_world=8"}, kRank);
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_THAT(output.last_error(), StartsWith("the job has 4 ranks, expected 8 (RANK=1"));
}

// As srun would start them: this process is the task, which no fake can say of another.
TEST(Whoami, TasksOfAStep) {
  for (int rank = 0; rank < 4; ++rank) {
    const ProgramOutput output = RunProgram(
        {"launch/whoami", "--json"}, {{"SLURM_JOB_ID", "7"},
                                      {"SLURM_STEP_ID", "0"},
                                      {"SLURM_PROCID", std::to_string(rank)},
                                      {"SLURM_LOCALID", std::to_string(rank % 2)},
                                      {"SLURM_NODEID", std::to_string(rank / 2)},
                                      {"SLURM_STEP_NUM_TASKS", "4"},
                                      {"SLURM_STEP_NODELIST", "node[1-2]"},
                                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                      {"SLURMD_NODENAME", fmt::format("node{}", rank / 2 + 1)}});
    const auto json = nlohmann::json::parse(output.out);
    EXPECT_EQ(json["rank"], rank);
    EXPECT_EQ(json["node_rank"], rank / 2);
    EXPECT_EQ(json["host"], "node1");
    EXPECT_EQ(json["ports"].size(), 8);
  }
}

TEST(Whoami, LaunchersThatContradictEachOther) {
  auto environment = kRank;
  environment["OMPI_COMM_WORLD_RANK"] = "0";
  environment["OMPI_COMM_WORLD_SIZE"] = "2";
  const ProgramOutput output = RunProgram({"launch/whoami"}, environment);
  EXPECT_EQ(output.exit_code, 2);
  EXPECT_THAT(output.last_error(), AllOf(HasSubstr("OMPI_COMM_WORLD_RANK=0 of OMPI_COMM_WORLD_SI"),
                                         HasSubstr("but RANK=1")));
  EXPECT_EQ(RunProgram({"launch/whoami", "--launcher=env"}, environment).exit_code, 0);
}

TEST(Whoami, BadFlagsAreNamed) {
  EXPECT_THAT(RunProgram({"launch/whoami", "--launcher=slrum"}).last_error(),
              StartsWith("--launcher=slrum: unknown launcher 'slrum'; did you mean 'slurm'?"));
  const ProgramOutput help = RunProgram({"launch/whoami", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--launcher"));
}

}  // namespace
}  // namespace launch
