#include "launch/topology/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "launch/topology/testing.h"

namespace launch {
namespace {

TEST(Describe, ARank) {
  const Variables rank = {{"RANK", "1"},       {"WORLD_SIZE", "4"},      {"LOCAL_RANK", "1"},
                          {"GROUP_RANK", "0"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(Describe(IdentityFrom(SurroundingsWith(rank))),
            "rank         1 of 4\n"
            "here         1 of ?, on machine 0\n"
            "launcher     env\n"
            "because      RANK=1 of WORLD_SIZE=4, set by whoever started this process\n"
            "meets at     node7 (MASTER_ADDR)\n"
            "on port      29500 (MASTER_PORT)\n");
}

TEST(Describe, WarningsAndWhatIsYetUnknown) {
  EXPECT_EQ(
      Describe(IdentityFrom(SurroundingsWith({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "4"}}))),
      "rank         0 of 1\n"
      "launcher     none\n"
      "because      SLURM_JOB_ID=7, but this process is no task of a step: it began in a shell\n"
      "warning: SLURM_NTASKS=4, but this process is none of the tasks: srun starts them\n");
  EXPECT_THAT(Describe(IdentityFrom(SurroundingsWith({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}))),
              testing::HasSubstr("meets at     yet to be agreed (over MPI)\n"
                                 "on port      yet to be agreed (over MPI)\n"));
}

TEST(Describe, TheGpuThatARankTakes) {
  const auto describe = [](const std::string& visible) {
    const Surroundings surroundings = SurroundingsWith({{"RANK", "3"},
                                                        {"WORLD_SIZE", "4"},
                                                        {"LOCAL_RANK", "3"},
                                                        {"LOCAL_WORLD_SIZE", "4"},
                                                        {"CUDA_VISIBLE_DEVICES", visible}});
    return DescribeGpu(IdentityFrom(surroundings), surroundings.environment);
  };
  EXPECT_EQ(describe("0,1,2,3"), "gpu          3 of 4 visible\n");
  EXPECT_EQ(describe("3"), "gpu          0 of 1 visible\n");
  EXPECT_EQ(describe("0,1"),
            "gpu          none: 4 ranks of this machine see 2 GPUs: expected 1 or 4\n");
  EXPECT_EQ(DescribeGpu({}, SurroundingsWith({}).environment), "");
}

TEST(Describe, AsJson) {
  const auto json = nlohmann::json::parse(
      IdentityJson(IdentityFrom(SurroundingsWith({{"RANK", "1"}, {"WORLD_SIZE", "4"}}))));
  EXPECT_EQ(json["launcher"], "env");
  EXPECT_EQ(json["rank"], 1);
  EXPECT_EQ(json["world_size"], 4);
  EXPECT_TRUE(json["local_rank"].is_null());
  EXPECT_TRUE(json["host"].is_null());
  EXPECT_EQ(json["ports"], nlohmann::json::array());
  EXPECT_EQ(json["warnings"], nlohmann::json::array());
}

}  // namespace
}  // namespace launch
