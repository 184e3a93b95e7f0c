// The environments in testdata, which a real Slurm and a real mpirun set for many layouts. Each
// section is a process: "[name] the identity that it must get", and its variables; those of
// "[all ranks]" hold for the sections after it, too.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "launch/topology/testing.h"
#include "launch/topology/topology.h"

namespace launch {
namespace {

// The pid that stands for every task's in the files.
constexpr int kTaskPid = 12345;

struct Section {
  std::string name, expected;
  Variables variables;
};

std::vector<Section> ReadSections(const std::filesystem::path& path) {
  std::vector<Section> sections;
  Section common, *current = &common;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("[all ranks]")) {
      current = &common;
    } else if (line.starts_with("[")) {
      const size_t end = line.find("] ");
      current = &sections.emplace_back(
          Section{line.substr(1, end - 1), line.substr(end + 2), common.variables});
    } else if (!line.empty() && line[0] != '#') {
      const size_t equals = line.find('=');
      current->variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  return sections;
}

// Where the process stands below the task: it is the task, a wrapper's child, or out of sight; but
// mpirun's ranks are always children of its daemon.
std::vector<std::vector<Ancestor>> Lineages(const Section& section) {
  if (section.expected.starts_with("mpi")) {
    return {{}, {{777, "train"}, {kTaskPid, "orted"}, {1, "slurmstepd"}}};
  }
  return {{}, {{kTaskPid, "train"}}, {{777, "train"}, {kTaskPid, "wrapper.sh"}}};
}

TEST(Environments, GiveTheRightIdentities) {
  int num_sections = 0;
  for (const auto& file : std::filesystem::directory_iterator("launch/topology/testdata")) {
    for (const Section& section : ReadSections(file)) {
      SCOPED_TRACE(file.path().filename().string() + " " + section.name);
      ++num_sections;
      for (const std::vector<Ancestor>& lineage : Lineages(section)) {
        const Identity identity = IdentityFrom(SurroundingsWith(section.variables, lineage));
        EXPECT_EQ(InShort(identity), section.expected);
        // Nobody but the launcher sets RANK: it isn't needed, and none is what was asked for.
        const Identity alone = IdentityFrom(SurroundingsWith(section.variables), Launcher::kNone);
        EXPECT_EQ(InShort(alone), "none 0 of 1");
      }
    }
  }
  EXPECT_EQ(num_sections, 110);
}

// The ranks of a step agree on ports, and two jobs take different ones.
TEST(Environments, RanksOfAStepHaveTheSamePorts) {
  std::map<std::string, std::vector<int>> ports_of_job;
  for (const auto& file : std::filesystem::directory_iterator("launch/topology/testdata")) {
    for (const Section& section : ReadSections(file)) {
      if (!section.expected.starts_with("slurm")) continue;
      const Identity identity = IdentityFrom(SurroundingsWith(section.variables));
      const auto [job, is_new] =
          ports_of_job.try_emplace(section.variables.at("SLURM_JOB_ID"), identity.rendezvous.ports);
      EXPECT_EQ(job->second, identity.rendezvous.ports);
    }
  }
  std::map<int, std::string> job_of_port;
  for (const auto& [job, ports] : ports_of_job) {
    for (const int port : ports) {
      EXPECT_TRUE(job_of_port.try_emplace(port, job).second) << job << " and " << job_of_port[port];
    }
  }
}

}  // namespace
}  // namespace launch
