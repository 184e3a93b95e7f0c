// The task of a Slurm step: what counts, what is checked, and what is no task. The environments of
// a real Slurm are in environments_test.cc.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "launch/topology/testing.h"
#include "launch/topology/topology.h"

namespace launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// Task 3 of 5: 3 on node1 and 2 on node2.
const Variables kStep = {{"SLURM_JOB_ID", "7"},
                         {"SLURM_STEP_ID", "1"},
                         {"SLURM_PROCID", "3"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_GTIDS", "3,4"},
                         {"SLURM_STEP_NUM_TASKS", "5"},
                         {"SLURM_STEP_NUM_NODES", "2"},
                         {"SLURM_STEP_NODELIST", "node[1-2]"},
                         {"SLURM_STEP_TASKS_PER_NODE", "3,2"},
                         {"SLURMD_NODENAME", "node2"}};
const std::string kExpected = "slurm 3 of 5, here 0 of 2, machine 1, at node1";

Identity Read(const Variables& changes) {
  return IdentityFrom(SurroundingsWith(With(kStep, changes)));
}

std::string Who(const Variables& changes) { return InShort(Read(changes)); }

TEST(SlurmStep, SaysThePlaceAndWhy) {
  const Identity identity = Read({});
  EXPECT_EQ(InShort(identity), kExpected);
  EXPECT_EQ(
      identity.why,
      "SLURM_PROCID=3 of SLURM_STEP_NUM_TASKS=5 in step 7.1, SLURM_LOCALID=0, SLURM_NODEID=1");
  EXPECT_EQ(identity.rendezvous.host_why, "the first of SLURM_STEP_NODELIST=node[1-2]");
  EXPECT_EQ(identity.rendezvous.ports.size(), 8);
  EXPECT_THAT(identity.warnings, IsEmpty());
}

TEST(SlurmStep, OnlyItsOwnVariablesCount) {
  EXPECT_EQ(Who({{"SLURM_NTASKS", "4"},
                 {"SLURM_NPROCS", "4"},
                 {"SLURM_NNODES", "1"},
                 {"SLURM_NTASKS_PER_NODE", "8"},
                 {"SLURM_TASKS_PER_NODE", "8(x4)"},
                 {"SLURM_JOB_NODELIST", "node[8-9]"},
                 {"SLURM_NODELIST", "node[8-9]"},
                 {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.9"},
                 {"SLURM_SRUN_COMM_HOST", "10.0.0.9"}}),
            kExpected);
}

TEST(SlurmStep, SomeMayBeMissing) {
  EXPECT_EQ(Who({{"SLURM_GTIDS", ""}}), kExpected);
  EXPECT_EQ(Who({{"SLURM_STEP_TASKS_PER_NODE", ""}, {"SLURM_STEP_NUM_NODES", ""}}), kExpected);
  EXPECT_EQ(Who({{"SLURM_GTIDS", ""}, {"SLURM_STEP_TASKS_PER_NODE", ""}}),
            "slurm 3 of 5, here 0 of ?, machine 1, at node1");
  EXPECT_EQ(Who({{"SLURM_STEP_ID", ""}, {"SLURM_STEPID", "1"}, {"SLURM_JOBID", "7"}}), kExpected);
}

TEST(SlurmStep, WithoutItsVariablesThereIsNone) {
  for (const char* name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST"}) {
    EXPECT_EQ(Who({{name, ""}}), "none 0 of 1") << name;
  }
  // What ssh into a node of the job leaves.
  EXPECT_EQ(InShort(IdentityFrom(
                SurroundingsWith({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "node[1-2]"}}))),
            "none 0 of 1");
}

// The batch script's shell and that of salloc have numbers of their own for the step.
TEST(SlurmStep, ShellsAreNone) {
  for (const char* id : {"-5", "-6", "4294967291", "4294967290"}) {
    EXPECT_EQ(Who({{"SLURM_STEP_ID", id}}), "none 0 of 1") << id;
  }
}

TEST(SlurmStep, ABatchShellIsWarned) {
  const Identity identity = IdentityFrom(
      SurroundingsWith({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}));
  EXPECT_EQ(InShort(identity), "none 0 of 1");
  EXPECT_THAT(identity.why, HasSubstr("SLURM_JOB_ID=7, but this process is no task of a step"));
  EXPECT_THAT(identity.warnings,
              ElementsAre(AllOf(HasSubstr("SLURM_NTASKS=4"), HasSubstr("srun"))));
  EXPECT_THAT(
      IdentityFrom(SurroundingsWith({{"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "1"}})).warnings,
      IsEmpty());
}

// srun --pty bash: the shell is a task, and what is typed into it none.
TEST(SlurmStep, NorIsWhatSomebodyTypes) {
  const Variables shell = {{"SLURM_PTY_PORT", "34889"},
                           {"SLURM_TASK_PID", "100"},
                           {"SLURM_PROCID", "0"},
                           {"SLURM_STEP_NUM_TASKS", "1"},
                           {"SLURM_STEP_NODELIST", "n"}};
  EXPECT_EQ(InShort(IdentityFrom(SurroundingsWith(shell, {{200, "train"}, {100, "bash"}}))),
            "none 0 of 1");
  EXPECT_EQ(InShort(IdentityFrom(SurroundingsWith(shell, {{100, "train"}, {50, "slurmstepd"}}))),
            "slurm 0 of 1, here ? of ?, machine ?, at 127.0.0.1");
}

struct BadCase {
  Variables changes;
  std::string message;
};

class BadStep : public testing::TestWithParam<BadCase> {};

TEST_P(BadStep, IsNamed) {
  EXPECT_THAT([] { Read(GetParam().changes); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadStep,
    testing::Values(
        BadCase{{{"SLURM_PROCID", "5"}}, "SLURM_PROCID=5: expected a rank below SLURM_STEP_NUM_T"},
        BadCase{{{"SLURM_PROCID", "x"}}, "SLURM_PROCID=x: expected a rank"},
        BadCase{{{"SLURM_LOCALID", "2"}}, "SLURM_LOCALID=2: expected a rank below the node's 2"},
        BadCase{{{"SLURM_LOCALID", "1"}},
                "SLURM_GTIDS=3,4: expected this task, SLURM_PROCID=3, at place SLURM_LOCALID=1"},
        BadCase{{{"SLURM_NODEID", "2"}}, "SLURM_NODEID=2: expected a node below the step's 2"},
        BadCase{{{"SLURM_STEP_NUM_NODES", "3"}},
                "SLURM_STEP_NODELIST=node[1-2] has 2 nodes, expected 3"},
        BadCase{{{"SLURM_STEP_NODELIST", ","}}, "has 0 nodes, expected 2"},
        BadCase{{{"SLURM_STEP_NODELIST", ","}, {"SLURM_STEP_NUM_NODES", ""}}, "has 0 nodes"},
        BadCase{{{"SLURM_STEP_NODELIST", "node[a-b]"}},
                "SLURM_STEP_NODELIST: node list 'node[a-b]': "},
        BadCase{{{"SLURM_STEP_TASKS_PER_NODE", "3(x2)"}},
                "SLURM_STEP_TASKS_PER_NODE=3(x2) has 6 tasks, but SLURM_STEP_NUM_TASKS=5"},
        BadCase{{{"SLURM_STEP_TASKS_PER_NODE", "5"}}, "SLURM_STEP_TASKS_PER_NODE: counts '5'"},
        BadCase{{{"SLURM_STEP_TASKS_PER_NODE", "3;2"}}, "SLURM_STEP_TASKS_PER_NODE: counts '3;2'"},
        BadCase{{{"SLURM_STEP_ID", "one"}}, "SLURM_STEP_ID=one: expected a number"}));

// The list is sorted; with a hostfile the tasks are not.
TEST(SlurmStep, WhereRankZeroIsMustBeCertain) {
  const std::string unknown = "slurm 3 of 5, here 0 of 2, machine 1, at ?";
  EXPECT_EQ(Who({{"SLURM_HOSTFILE", "/home/user/hosts"}}), unknown);
  EXPECT_EQ(Who({{"SLURM_DISTRIBUTION", "arbitrary"}}), unknown);
  EXPECT_EQ(Who({{"SLURMD_NODENAME", "node1"}}), unknown);
  EXPECT_THAT(Read({{"SLURM_HOSTFILE", "h"}}).rendezvous.host_why,
              HasSubstr("any of SLURM_STEP_NODELIST=node[1-2]"));
  for (const char* order : {"block", "cyclic", "plane"}) {
    EXPECT_EQ(Who({{"SLURM_DISTRIBUTION", order}}), kExpected);
  }
  // Rank 0 and its neighbours know.
  EXPECT_EQ(Who({{"SLURM_DISTRIBUTION", "arbitrary"},
                 {"SLURM_PROCID", "2"},
                 {"SLURM_GTIDS", "0,2"},
                 {"SLURM_LOCALID", "1"}}),
            "slurm 2 of 5, here 1 of 2, machine 1, at node2");
  // And so does everybody who is told.
  EXPECT_EQ(Who({{"SLURM_DISTRIBUTION", "arbitrary"}, {"MASTER_ADDR", "10.0.0.1"}}),
            "slurm 3 of 5, here 0 of 2, machine 1, at 10.0.0.1");
}

TEST(SlurmStep, WhereToMeetMayBeGiven) {
  const Identity identity = Read({{"MASTER_ADDR", "head"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(identity.rendezvous.host, "head");
  EXPECT_THAT(identity.rendezvous.ports, ElementsAre(29500));
  EXPECT_EQ(Read({{"MASTER_PORT", "29500"}}).rendezvous.host, "node1");
  EXPECT_EQ(Read({{"MASTER_ADDR", "head"}}).rendezvous.ports.size(), 8);
}

TEST(SlurmStep, PortsFollowTheKernelsRange) {
  Surroundings surroundings = SurroundingsWith(kStep);
  surroundings.first_ephemeral_port = 15000;
  for (const int port : IdentityFrom(surroundings).rendezvous.ports) EXPECT_LT(port, 15000);
  surroundings.first_ephemeral_port = 1024;
  EXPECT_THAT(IdentityFrom(surroundings).rendezvous.ports, IsEmpty());
  EXPECT_THAT(IdentityFrom(surroundings).rendezvous.ports_why, HasSubstr("below 1024"));
}

TEST(SlurmStep, MoreGpusThanTasksAreWarnedOf) {
  EXPECT_THAT(Read({{"CUDA_VISIBLE_DEVICES", "0,1,2"}}).warnings,
              ElementsAre(HasSubstr("2 tasks for 3 GPUs")));
  EXPECT_THAT(Read({{"CUDA_VISIBLE_DEVICES", "0,1"}}).warnings, IsEmpty());
  EXPECT_THAT(IdentityFrom(SurroundingsWith({{"SLURM_PROCID", "0"},
                                             {"SLURM_LOCALID", "0"},
                                             {"SLURM_STEP_NUM_TASKS", "1"},
                                             {"SLURM_STEP_NODELIST", "n"},
                                             {"SLURM_GTIDS", "0"},
                                             {"SLURM_NTASKS_PER_NODE", "2"},
                                             {"CUDA_VISIBLE_DEVICES", "0,1"}}))
                  .warnings,
              ElementsAre(HasSubstr("1 task for 2 GPUs")));
}

}  // namespace
}  // namespace launch
