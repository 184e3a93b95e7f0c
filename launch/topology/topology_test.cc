// Whose word counts, and what happens when launchers contradict each other.
#include "launch/topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "launch/topology/testing.h"

namespace launch {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

const Variables kRank = {
    {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
// Task 2 of 4, on the second of two nodes.
const Variables kStep = {{"SLURM_JOB_ID", "7"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_PROCID", "2"},
                         {"SLURM_LOCALID", "0"},
                         {"SLURM_NODEID", "1"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_STEP_NODELIST", "node[1-2]"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                         {"SLURM_TASK_PID", "100"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"OMPI_COMM_WORLD_NODE_RANK", "6"}};

Identity Read(const Variables& variables, Launcher launcher = Launcher::kAuto) {
  return IdentityFrom(SurroundingsWith(variables), launcher);
}

std::string Who(const Variables& variables, Launcher launcher = Launcher::kAuto) {
  return InShort(Read(variables, launcher));
}

TEST(Topology, NobodySaid) {
  EXPECT_EQ(Who({}), "none 0 of 1");
  // Batch scripts export where to meet before anything knows its rank.
  EXPECT_EQ(Who({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}}), "none 0 of 1");
  EXPECT_EQ(Who({{"RANK", ""}, {"WORLD_SIZE", ""}}), "none 0 of 1");
}

TEST(Torchrun, FourVariablesMakeARank) {
  const Identity identity = Read(kRank);
  EXPECT_EQ(InShort(identity), "env 1 of 4, here ? of ?, machine ?, at node7");
  EXPECT_THAT(identity.rendezvous.ports, ElementsAre(29500));
  EXPECT_EQ(identity.why, "RANK=1 of WORLD_SIZE=4, set by whoever started this process");
}

TEST(Torchrun, LocalPlaceAndMachine) {
  const Variables rank = With(kRank, {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}});
  EXPECT_EQ(Who(With(rank, {{"GROUP_RANK", "5"}})), "env 1 of 4, here 1 of 2, machine 5, at node7");
  EXPECT_EQ(Who(With(rank, {{"NODE_RANK", "3"}})), "env 1 of 4, here 1 of 2, machine 3, at node7");
  EXPECT_EQ(Who(With(rank, {{"CROSS_RANK", "0"}})), "env 1 of 4, here 1 of 2, machine 0, at node7");
}

TEST(Torchrun, AnAddressMayBeMissingUntilTheRanksMeet) {
  const Identity identity = Read({{"RANK", "1"}, {"WORLD_SIZE", "4"}});
  EXPECT_EQ(InShort(identity), "env 1 of 4, here ? of ?, machine ?, at ?");
  EXPECT_THAT(identity.rendezvous.ports, IsEmpty());
  EXPECT_EQ(identity.rendezvous.host_why, "MASTER_ADDR is not set");
}

struct BadCase {
  std::string variable, value, expected;
};

class BadEnvironment : public testing::TestWithParam<BadCase> {};

TEST_P(BadEnvironment, NamesVariableValueAndWhatIsExpected) {
  const auto& [variable, value, expected] = GetParam();
  EXPECT_THAT(
      [&] {
        Read(With(With(kRank, {{"LOCAL_WORLD_SIZE", "2"}}), {{variable, value}}));
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr(variable + "=" + value), HasSubstr(expected))));
}

INSTANTIATE_TEST_SUITE_P(All, BadEnvironment,
                         testing::Values(BadCase{"RANK", "4", "below WORLD_SIZE=4"},
                                         BadCase{"WORLD_SIZE", "0", "whole number from 1"},
                                         BadCase{"LOCAL_WORLD_SIZE", "5", "at most WORLD_SIZE=4"},
                                         BadCase{"LOCAL_WORLD_SIZE", "0", "at most WORLD_SIZE=4"},
                                         BadCase{"LOCAL_RANK", "2", "below LOCAL_WORLD_SIZE=2"},
                                         BadCase{"GROUP_RANK", "-1", "a machine's number"},
                                         BadCase{"MASTER_PORT", "0", "1 to 65535"}));

TEST(Torchrun, HalfAPlaceIsAnError) {
  EXPECT_THAT(
      [] {
        Read({{"RANK", "1"}});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("WORLD_SIZE is not set, but RANK is")));
  EXPECT_THAT(
      [] {
        Read({{"WORLD_SIZE", "4"}});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("RANK is not set")));
}

// torchrun is one task of a step, and its ranks are others than the step's.
TEST(Torchrun, InsideSlurmOrMpiItsWordCounts) {
  const Variables inside = {
      {"RANK", "5"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}, {"TORCHELASTIC_RUN_ID", "x"}};
  const std::string expected = "env 5 of 8, here 1 of ?, machine ?, at ?";
  EXPECT_EQ(Who(With(inside, {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}})), expected);
  EXPECT_EQ(Who(With(inside, kStep)), expected);
  EXPECT_EQ(Who(With(inside, kOpenMpi)), expected);
  EXPECT_THAT(Read(inside).why, HasSubstr("torchrun"));
  // Even where the step's variables make no sense.
  EXPECT_EQ(Who(With(With(inside, kStep), {{"SLURM_STEP_NODELIST", "node["}})), expected);
}

// Ranks run the command line of the process that started them.
TEST(Topology, OurOwnRanksAreRanksWhateverTheFlagSays) {
  const Variables own = With(With(kStep, kRank), {{"DDP_STORE_HOSTED", "1"}});
  for (const Launcher launcher :
       {Launcher::kAuto, Launcher::kEnv, Launcher::kSlurm, Launcher::kMpi, Launcher::kNone}) {
    EXPECT_EQ(Who(own, launcher), "env 1 of 4, here ? of ?, machine ?, at node7");
  }
}

// `export RANK=0` in a batch script reaches every task.
TEST(Topology, AHandmadeRankMustBeTheLaunchers) {
  EXPECT_THAT(
      [] {
        Read(With(kStep, {{"RANK", "0"}, {"WORLD_SIZE", "4"}}));
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("SLURM_PROCID=2 of SLURM_STEP_NUM_TASKS=4"), HasSubstr("but RANK=0"),
                HasSubstr("--launcher="))));
  EXPECT_THAT(
      [] {
        Read(With(kOpenMpi, {{"RANK", "3"}, {"WORLD_SIZE", "4"}}));
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("OMPI_COMM_WORLD_SIZE=8"), HasSubstr("but WORLD_SIZE=4"))));
  EXPECT_THAT(
      [] {
        Read(With(kStep, {{"WORLD_SIZE", "16"}}));
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("but WORLD_SIZE=16")));
  const std::string step = "slurm 2 of 4, here 0 of 2, machine 1, at node1";
  EXPECT_EQ(Who(With(kStep, {{"RANK", "2"}, {"WORLD_SIZE", "4"}})), step);
  EXPECT_EQ(Who(With(kStep, {{"WORLD_SIZE", "4"}})), step);
}

TEST(Topology, OneMayBeAskedForByName) {
  const Variables all = With(With(kStep, kOpenMpi), kRank);
  EXPECT_EQ(Who(all, Launcher::kEnv), "env 1 of 4, here ? of ?, machine ?, at node7");
  EXPECT_EQ(Who(all, Launcher::kSlurm), "slurm 2 of 4, here 0 of 2, machine 1, at node7");
  EXPECT_EQ(Who(all, Launcher::kMpi), "mpi 3 of 8, here 2 of 4, machine ?, at node7");
  EXPECT_EQ(Who(all, Launcher::kNone), "none 0 of 1");
}

TEST(Topology, WhoWasAskedForMustSpeak) {
  for (const auto& [launcher, missing] :
       {std::pair(Launcher::kEnv, "--launcher=env: RANK"),
        std::pair(Launcher::kSlurm, "--launcher=slurm: SLURM_PROCID"),
        std::pair(Launcher::kMpi, "--launcher=mpi: OMPI_COMM_WORLD_RANK")}) {
    EXPECT_THAT(
        [&] {
          Read({{"SLURM_PROCID", "0"}}, launcher);
        },
        ThrowsMessage<std::invalid_argument>(HasSubstr(missing)));
  }
}

TEST(Topology, LaunchersHaveNames) {
  for (const char* name : {"auto", "env", "slurm", "mpi", "none"}) {
    EXPECT_EQ(ToString(ParseLauncher(name)), name);
  }
  EXPECT_THAT([] { ParseLauncher("slrum"); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("did you mean 'slurm'?")));
}

TEST(Topology, AWorldOfAnotherSizeIsNamed) {
  CheckWorldSize(4, 4, "");
  CheckWorldSize(4, 0, "");
  EXPECT_THAT(
      [] { CheckWorldSize(1, 2, "SLURM_PROCID=0"); },
      ThrowsMessage<std::invalid_argument>("the job has 1 rank, expected 2 (SLURM_PROCID=0)"));
}

// mpirun in a batch script: its ranks have the Slurm variables of the shell, or of the step that
// started its daemon.
TEST(Mpi, InsideSlurmItsWordCounts) {
  const std::string expected = "mpi 3 of 8, here 2 of 4, machine ?, at ?";
  EXPECT_EQ(Who(kOpenMpi), expected);
  EXPECT_EQ(Who(With(kOpenMpi, {{"SLURM_JOB_ID", "7"},
                                {"SLURM_PROCID", "0"},
                                {"SLURM_LOCALID", "0"},
                                {"SLURM_NTASKS", "8"}})),
            expected);
  const Variables both = With(kStep, kOpenMpi);
  EXPECT_EQ(Who(both), expected);
  const Surroundings child =
      SurroundingsWith(both, {{200, "train"}, {100, "orted"}, {50, "slurmstepd"}});
  EXPECT_EQ(InShort(IdentityFrom(child)), expected);
  EXPECT_THAT(IdentityFrom(child).why, HasSubstr("around it SLURM_PROCID=2"));
}

// srun in a script that mpirun started, say: the process is the step's own task.
TEST(Mpi, AroundSlurmTheStepsWordCounts) {
  const Variables both = With(kStep, kOpenMpi);
  const std::string expected = "slurm 2 of 4, here 0 of 2, machine 1, at node1";
  for (const std::vector<Ancestor>& lineage :
       {std::vector<Ancestor>{{100, "train"}, {50, "slurmstepd"}},
        std::vector<Ancestor>{{300, "train"}, {100, "wrapper.sh"}, {50, "slurmstepd"}},
        std::vector<Ancestor>{{100, "train"}, {50, "srun"}, {40, "mpirun"}}}) {
    EXPECT_EQ(InShort(IdentityFrom(SurroundingsWith(both, lineage))), expected);
  }
}

struct Family {
  std::string name, rank, size;
  Variables variables;
  std::string expected;
};

class MpiFamily : public testing::TestWithParam<Family> {};

TEST_P(MpiFamily, SaysThePlace) {
  const auto& [name, rank, size, variables, expected] = GetParam();
  const Identity identity = Read(variables);
  EXPECT_EQ(InShort(identity), expected);
  EXPECT_THAT(identity.why, HasSubstr(name));
  // Half a place is none.
  EXPECT_EQ(Who(With(variables, {{rank, ""}})), "none 0 of 1");
  EXPECT_EQ(Who(With(variables, {{size, ""}})), "none 0 of 1");
}

INSTANTIATE_TEST_SUITE_P(
    All, MpiFamily,
    testing::Values(Family{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", kOpenMpi,
                           "mpi 3 of 8, here 2 of 4, machine ?, at ?"},
                    Family{"PMI",
                           "PMI_RANK",
                           "PMI_SIZE",
                           {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}},
                           "mpi 3 of 4, here ? of ?, machine ?, at ?"},
                    // MPICH's Hydra, Intel MPI.
                    Family{"PMI",
                           "PMI_RANK",
                           "PMI_SIZE",
                           {{"PMI_RANK", "3"},
                            {"PMI_SIZE", "4"},
                            {"MPI_LOCALRANKID", "1"},
                            {"MPI_LOCALNRANKS", "2"}},
                           "mpi 3 of 4, here 1 of 2, machine ?, at ?"},
                    Family{"MVAPICH",
                           "MV2_COMM_WORLD_RANK",
                           "MV2_COMM_WORLD_SIZE",
                           {{"MV2_COMM_WORLD_RANK", "1"},
                            {"MV2_COMM_WORLD_SIZE", "2"},
                            {"MV2_COMM_WORLD_LOCAL_RANK", "1"},
                            {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}},
                           "mpi 1 of 2, here 1 of 2, machine ?, at 127.0.0.1"}));

TEST(Mpi, CrayPalsKnowsTheMachine) {
  const Variables pals = {{"PMI_RANK", "3"},       {"PALS_RANKID", "3"},    {"PMI_SIZE", "4"},
                          {"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "2"}, {"PALS_NODEID", "1"}};
  EXPECT_EQ(Who(pals), "mpi 3 of 4, here 1 of 2, machine 1, at ?");
  EXPECT_EQ(Who(With(pals, {{"PALS_RANKID", ""}})), "mpi 3 of 4, here 1 of 2, machine ?, at ?");
}

TEST(Mpi, FamiliesMustAgree) {
  const Variables pmi = {{"PMI_RANK", "3"}, {"PMI_SIZE", "8"}};
  EXPECT_EQ(Who(With(kOpenMpi, pmi)), Who(kOpenMpi));
  EXPECT_THAT(
      [&] {
        Read(With(kOpenMpi, {{"PMI_RANK", "0"}, {"PMI_SIZE", "8"}}));
      },
      ThrowsMessage<std::invalid_argument>(
          AllOf(HasSubstr("Open MPI: OMPI_COMM_WORLD_RANK=3"), HasSubstr("PMI: PMI_RANK=0"))));
}

TEST(Mpi, WhereToMeetMayBeGiven) {
  const Identity identity = Read(With(kOpenMpi, {{"MASTER_ADDR", "::1"}, {"MASTER_PORT", "1234"}}));
  EXPECT_EQ(identity.rendezvous.host, "::1");
  EXPECT_THAT(identity.rendezvous.ports, ElementsAre(1234));
}

// srun --mpi=pmi2 and cray_shasta set PMI's variables, too: Slurm says more about the same place.
TEST(Mpi, PmiOfSlurmIsSlurm) {
  EXPECT_EQ(Who(With(kStep, {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}})),
            "slurm 2 of 4, here 0 of 2, machine 1, at node1");
  EXPECT_EQ(Who(With(kStep, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}})),
            "mpi 5 of 8, here ? of ?, machine ?, at ?");
}

// PMIX_RANK isn't always there, and never enough; but what contradicts it isn't the place.
TEST(Mpi, PmixRank) {
  EXPECT_EQ(Who({{"PMIX_RANK", "3"}}), "none 0 of 1");
  EXPECT_EQ(Who(With(kStep, {{"PMIX_RANK", "2"}})), Who(kStep));
  const Variables other = With(kStep, {{"PMIX_RANK", "1"}});
  EXPECT_THAT([&] { Read(other); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("SLURM_PROCID=2"), HasSubstr("but PMIX_RANK=1"))));
  EXPECT_EQ(InShort(IdentityFrom(SurroundingsWith(other, {{100, "train"}}))), Who(kStep));
}

}  // namespace
}  // namespace launch
