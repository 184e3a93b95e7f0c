// slurm/ddp_job.sh on a real Slurm, with a stand-in for the trainer.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "tests/slurm/job.h"

namespace slurm {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

Job SubmitStandIn(const Words& flags, const Words& arguments) {
  return Job::SubmitProgram("tests/slurm/stand_in", flags, arguments);
}

// What an undisturbed run of the stand-in says at its end.
std::string Done(int steps) {
  uint64_t sum = 0;
  for (int step = 1; step <= steps; ++step) sum = 31 * sum + step;
  return fmt::format("0: done: {} steps, sum {}\n", steps, sum);
}

// A script that the test writes.
std::string Script(const std::string& name, const std::string& body) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << "#!/bin/sh\n" << body;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST(Jobs, TwoNodesTimesTwoTasksToTheEnd) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=20"});
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
  const std::string log = job.Log();
  EXPECT_THAT(log, ContainsRegex("0: rank 0 of 4 on node1 with pid [0-9]+ from step 0\n"));
  EXPECT_THAT(log, ContainsRegex("1: rank 1 of 4 on node1 "));
  EXPECT_THAT(log, ContainsRegex("2: rank 2 of 4 on node2 "));
  EXPECT_THAT(log, ContainsRegex("3: rank 3 of 4 on node2 "));
  EXPECT_THAT(log, HasSubstr(Done(20)));
  EXPECT_THAT(log, HasSubstr("ddp_job: exit code 0\n"));
}

TEST(Jobs, AskedToStopItSavesIsRequeuedAndGoesOn) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=200"});
  for (const char* line : {"0: step 10", "0: step 30"}) {
    job.AwaitLine(line);
    job.AskToStop();
    job.LetRestart();
  }
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
  const std::string log = job.Log();  // of all three starts
  std::smatch first, second;
  ASSERT_TRUE(std::regex_search(log, first, std::regex("requeued, to go on from step (\\d+)\n")));
  const std::string rest = first.suffix();
  ASSERT_TRUE(std::regex_search(rest, second, std::regex("requeued, to go on from step (\\d+)\n")));
  EXPECT_LT(std::stoi(first[1]), std::stoi(second[1]));
  EXPECT_THAT(log, HasSubstr("ddp_job: USR1: the program is asked to stop\n"));
  EXPECT_THAT(log, HasSubstr(" restart 2, on node"));
  for (const auto& step : {first[1], second[1]}) {
    EXPECT_THAT(log, ContainsRegex(fmt::format("3: rank 3 of 4 on node2 with pid [0-9]+ from step "
                                               "{}\n",
                                               step.str())));
  }
  EXPECT_THAT(log, HasSubstr(Done(200)));
}

// Slurm looks at limits every half a minute.
TEST(Jobs, ShortBeforeItsTimeLimitItIsAskedToStop) {
  const Job job = SubmitStandIn(kTwoByTwo + Words{"--time=1"}, {"--steps=400", "--step_ms=100"});
  job.AwaitLine("ddp_job: USR1: the program is asked to stop");
  job.LetRestart();
  OutputOf({"scontrol", "update", "JobId=" + job.id(), "TimeLimit=60"});
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
  EXPECT_EQ(job.Property("Restarts"), "1");
  EXPECT_THAT(job.Log(), HasSubstr(Done(400)));
}

TEST(Jobs, WithoutProgressItIsNotRequeued) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=100000", "--save=0"});
  job.AwaitLine("0: step 10");
  job.AskToStop();
  EXPECT_EQ(job.AwaitEnd(), "FAILED 75:0");
  EXPECT_THAT(job.Log(), HasSubstr("ddp_job: not requeued: no progress, the newest checkpoint is "
                                   "that of step 0, as at the start\n"));
  EXPECT_EQ(job.Property("Restarts"), "0");
}

TEST(Jobs, CancelledItStaysSo) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=100000"});
  job.AwaitLine("0: step 10");
  OutputOf({"scancel", job.id()});
  EXPECT_THAT(job.AwaitEnd(), HasSubstr("CANCELLED"));
  EXPECT_EQ(job.Property("Restarts"), "0");
}

TEST(Jobs, AKilledTaskFailsTheJobWithItsCode) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=100000"});
  job.AwaitLine("0: step 10");
  std::smatch pid;
  const std::string line = job.AwaitLine("3: rank 3 of 4 on node2");
  ASSERT_TRUE(std::regex_search(line, pid, std::regex("with pid (\\d+)")));
  Host("on", "node2", {"sh", "-c", "kill -KILL " + pid.str(1)});
  EXPECT_EQ(job.AwaitEnd(), "FAILED 137:0");
  EXPECT_THAT(job.Log(), HasSubstr("ddp_job: task 3 failed first, with exit code 137\n"));
}

TEST(Jobs, ATaskThatFailsFailsTheJobWithItsCode) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=100000", "--fail_rank=2"});
  EXPECT_EQ(job.AwaitEnd(), "FAILED 3:0");
  EXPECT_THAT(job.Log(), HasSubstr("ddp_job: task 2 failed first, with exit code 3\n"));
}

TEST(Jobs, AnArrayOneOfWhoseElementsIsRequeued) {
  const Job array =
      SubmitStandIn({"--array=1-3", "--ntasks-per-node=2"}, {"--steps=80", "--step_ms=5%a"});
  const Job second = array.Element(2);
  second.AwaitLine("0: step 10");
  second.AskToStop();
  second.LetRestart();
  for (int index = 1; index <= 3; ++index) {
    const Job element = array.Element(index);
    EXPECT_EQ(element.AwaitEnd(), "COMPLETED 0:0") << element.Log();
    const std::string log = element.Log();
    EXPECT_EQ(element.Property("Restarts"), index == 2 ? "1" : "0");
    EXPECT_THAT(
        log, HasSubstr(fmt::format("--step_ms=5{0} --checkpoint_dir=checkpoints/ddp-{1}_{0}", index,
                                   array.id())));
    EXPECT_THAT(log, HasSubstr(Done(80)));
  }
}

TEST(Jobs, TwoOnTheSameNodesDoNotMix) {
  const Job one = SubmitStandIn(kTwoByTwo, {"--steps=30"});
  const Job other = SubmitStandIn(kTwoByTwo, {"--steps=31"});
  EXPECT_EQ(one.AwaitEnd(), "COMPLETED 0:0");
  EXPECT_EQ(other.AwaitEnd(), "COMPLETED 0:0");
  EXPECT_THAT(one.Log(), HasSubstr(Done(30)));
  EXPECT_THAT(other.Log(), HasSubstr(Done(31)));
}

// Slurm sends TERM to the tasks, and not to the script.
void Preempt(const Job& job) {
  job.AwaitLine("0: step 10");
  const Job urgent =
      SubmitStandIn(kTwoByTwo + Words{"--partition=urgent", "--exclusive"}, {"--steps=10"});
  EXPECT_EQ(urgent.AwaitEnd(), "COMPLETED 0:0");
  job.LetRestart();
}

TEST(Jobs, PreemptedItGoesOnAfterwards) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=200"});
  Preempt(job);
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
  EXPECT_THAT(job.Log(), ContainsRegex("ddp_job: requeued, to go on from step [1-9]"));
  EXPECT_EQ(job.Property("Restarts"), "1");
  EXPECT_THAT(job.Log(), HasSubstr(Done(200)));
}

TEST(Jobs, PreemptedBeforeItsFirstCheckpointItBeginsAnew) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=200", "--save=0"});
  Preempt(job);
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
  EXPECT_THAT(job.Log(), HasSubstr("ddp_job: requeued, to go on from step 0\n"));
  EXPECT_THAT(job.Log(), HasSubstr(Done(200)));
}

TEST(Jobs, ANodeThatCrashesIsWaitedFor) {
  const Job job = SubmitStandIn(kTwoByTwo, {"--steps=200", "--checkpoint_every=10"});
  job.AwaitLine("0: step 12");
  Host("crash", "node2");
  OutputOf({"scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=crash"});
  job.LetRestart();
  Host("boot", "node2");
  Host("on", "node2", {"slurmd", "-N", "node2"});
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
  EXPECT_THAT(job.Log(),
              ContainsRegex("ddp_job: checkpoints in .*, the newest of step 1?[0-9]0\n"));
  EXPECT_THAT(job.Log(), HasSubstr(Done(200)));
}

TEST(Jobs, EveryTaskSeesTheGpusOfItsNode) {
  const std::string program = Script("gpus.sh", "echo GPUs $CUDA_VISIBLE_DEVICES\n");
  const Job job = Job::SubmitProgram(program, kTwoByTwo + Words{"--gpus-per-node=2"}, {});
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(job.Log(), HasSubstr(fmt::format("{}: GPUs 0,1\n", rank)));
  }
}

TEST(Jobs, MpirunStartsRanksInsideAJob) {
  const std::string job_script = Script(
      "mpirun.sh",
      "mpirun sh -c 'echo $SLURMD_NODENAME $(hostname) rank $OMPI_COMM_WORLD_RANK of "
      "$OMPI_COMM_WORLD_SIZE, local $OMPI_COMM_WORLD_LOCAL_RANK of $OMPI_COMM_WORLD_LOCAL_SIZE'\n");
  const Job job =
      Job::Submit(kTwoByTwo + Words{"--job-name=ddp"}, {job_script},
                  {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
  EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(job.Log(), HasSubstr(fmt::format("node{} rank {} of 4, local {} of 2\n",
                                                 1 + rank / 2, rank, rank % 2)));
  }
}

}  // namespace
}  // namespace slurm
