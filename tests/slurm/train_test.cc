// slurm/ddp_job.sh and the trainer on a real Slurm: two nodes with two ranks each.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/slurm/job.h"

namespace slurm {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

Words Flags(int steps) {
  return {"--model=mlp",     "--hidden=16",    "--data=digits",
          "--batch_size=16", "--log_every=50", fmt::format("--max_steps={}", steps),
          "--save=weights"};
}

Job SubmitTrain(const Words& flags) { return Job::SubmitProgram("launch/train", kTwoByTwo, flags); }

// The weights at the end of a job that has come to it.
std::string Weights(const Job& job) {
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0") << job.Log();
  std::string weights = ReadFile(job.directory() + "/weights");
  EXPECT_FALSE(weights.empty());
  return weights;
}

TEST(Train, ToTheEnd) {
  const Job job = SubmitTrain(Flags(60));
  Weights(job);
  EXPECT_THAT(job.Log(), HasSubstr("4 ranks"));
  EXPECT_THAT(job.Log(), ContainsRegex("\n0: done: 60 steps in "));
}

TEST(Train, RequeuedItEndsWithTheBitsOfAnUndisturbedRun) {
  const Words flags = Flags(3000);
  const Job job = SubmitTrain(flags);
  job.AwaitLine("0: step 50/");
  job.AskToStop();
  job.LetRestart();
  const std::string weights = Weights(job);
  EXPECT_EQ(job.Property("Restarts"), "1");
  EXPECT_THAT(job.Log(), ContainsRegex("ddp_job: requeued, to go on from step [1-9]"));
  EXPECT_EQ(weights, Weights(SubmitTrain(flags)));
}

TEST(Train, AKilledRankFailsTheJobWithItsCode) {
  const Job job = SubmitTrain(Flags(1'000'000));
  job.AwaitLine("0: step 50/");
  Host("on", "node2", {"sh", "-c", "kill -KILL $(pidof -s train)"});
  EXPECT_EQ(job.AwaitEnd(), "FAILED 137:0") << job.Log();
  EXPECT_THAT(job.Log(), ContainsRegex("ddp_job: task [23] failed first, with exit code 137\n"));
}

TEST(Train, TwoJobsAtOnceOnTheSameNodesDoNotMeet) {
  const Words flags = Flags(200), other_flags = flags + Words{"--seed=1"};
  const Job one = SubmitTrain(flags), other = SubmitTrain(other_flags);
  const std::string weights = Weights(one), other_weights = Weights(other);
  EXPECT_NE(weights, other_weights);
  EXPECT_EQ(weights, Weights(SubmitTrain(flags)));
  EXPECT_EQ(other_weights, Weights(SubmitTrain(other_flags)));
}

// Its variables don't say where the ranks meet; they tell each other over MPI.
TEST(Train, UnderMpirunInsideAJob) {
  const std::string script = testing::TempDir() + "/mpirun.sh";
  std::ofstream(script) << fmt::format(
      "#!/bin/sh\n"
      "mpirun --bind-to none {} --backend=mpi {}\n",
      AbsolutePath("launch/train"), fmt::join(Flags(60), " "));
  const Job job =
      Job::Submit(kTwoByTwo + Words{"--job-name=ddp"}, {script},
                  {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
  Weights(job);
  EXPECT_THAT(job.Log(), HasSubstr("4 ranks, mpi"));
}

}  // namespace
}  // namespace slurm
