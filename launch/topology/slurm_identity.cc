#include "launch/topology/slurm_identity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "ddp/store/rank_variables.h"
#include "launch/text/text.h"
#include "launch/topology/devices.h"
#include "launch/topology/env_identity.h"
#include "launch/topology/mpi_identity.h"
#include "launch/topology/ports.h"
#include "slurm/hostlist.h"
#include "slurm/task_counts.h"

namespace launch {
namespace {

using ddp::NumberOf;
using ddp::TextOf;

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int64_t kMaxId = std::numeric_limits<uint32_t>::max();
// Slurm's numbers for what isn't a step of tasks, such as the batch script; printed as -5, too.
constexpr int64_t kSpecialIds = 0xfffffff0;

struct Step {
  int64_t job_id = 0, id = 0;
  ddp::RankPlace place;
  std::string node_list;
  std::vector<std::string> nodes;
  std::vector<std::string> neighbours;  // the ranks on this node; empty where it isn't said
};

std::optional<int64_t> IdOf(const Environment& environment, const std::string& name,
                            const std::string& old_name) {
  for (const std::string& each : {name, old_name}) {
    const auto id = NumberOf(environment, each, {-kSpecialIds, kMaxId}, "a number of Slurm's");
    if (id) return id;
  }
  return std::nullopt;
}

// Calls a parser of slurm/, whose errors don't know the variable.
template <class Parse>
auto NamingVariable(const std::string& name, Parse parse) {
  try {
    return parse();
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(name + ": " + e.what());
  }
}

std::vector<std::string> ReadList(const Environment& environment, const std::string& name) {
  const std::string list = TextOf(environment, name).value_or("");
  return NamingVariable(name, [&] { return slurm::ExpandHostlist(list); });
}

std::optional<int64_t> TaskPid(const Environment& environment) {
  return NumberOf(environment, "SLURM_TASK_PID", {1, kMaxInt}, "a process");
}

// srun --pty is how people get a shell on a node: a task, while what they type there is none.
bool IsTypedInShell(const Surroundings& surroundings, const ddp::RankPlace& place) {
  const bool is_task = !surroundings.lineage.empty() &&
                       surroundings.lineage[0].pid == TaskPid(surroundings.environment);
  return place.size == 1 && TextOf(surroundings.environment, "SLURM_PTY_PORT") && !is_task;
}

void CheckNumberOfNodes(const Environment& environment, const Step& step) {
  const int64_t num_nodes = std::ssize(step.nodes);
  const auto expected =
      NumberOf(environment, "SLURM_STEP_NUM_NODES", {1, kMaxInt}, "the step's nodes, from 1");
  if (num_nodes == 0 || (expected && num_nodes != *expected)) {
    throw std::invalid_argument(fmt::format("SLURM_STEP_NODELIST={} has {}, expected {}",
                                            step.node_list, FormatCount(num_nodes, "node"),
                                            expected ? std::to_string(*expected) : "some"));
  }
}

std::optional<Step> ReadStep(const Surroundings& surroundings) {
  const Environment& environment = surroundings.environment;
  const auto place = ddp::ReadPlace(environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  const auto node_list = TextOf(environment, "SLURM_STEP_NODELIST");
  const int64_t id = IdOf(environment, "SLURM_STEP_ID", "SLURM_STEPID").value_or(0);
  if (!place || !node_list || id < 0 || id >= kSpecialIds) return std::nullopt;
  if (IsTypedInShell(surroundings, *place)) return std::nullopt;
  Step step;
  step.job_id = IdOf(environment, "SLURM_JOB_ID", "SLURM_JOBID").value_or(0);
  step.id = id;
  step.place = *place;
  step.node_list = *node_list;
  step.nodes = ReadList(environment, "SLURM_STEP_NODELIST");
  step.neighbours = ReadList(environment, "SLURM_GTIDS");  // numbers make such a list, too
  CheckNumberOfNodes(environment, step);
  return step;
}

// The tasks of each node; empty where it is not set.
std::vector<int> ReadTaskCounts(const Environment& environment, const Step& step) {
  const auto text = TextOf(environment, "SLURM_STEP_TASKS_PER_NODE");
  if (!text) return {};
  std::vector<int> counts = NamingVariable("SLURM_STEP_TASKS_PER_NODE", [&] {
    return slurm::ExpandTaskCounts(*text, step.nodes.size());
  });
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (sum != step.place.size) {
    throw std::invalid_argument(
        fmt::format("SLURM_STEP_TASKS_PER_NODE={} has {}, but SLURM_STEP_NUM_TASKS={}", *text,
                    FormatCount(sum, "task"), step.place.size));
  }
  return counts;
}

void CheckNeighbours(const Step& step, int local_rank) {
  if (step.neighbours[local_rank] != std::to_string(step.place.rank)) {
    throw std::invalid_argument(fmt::format(
        "SLURM_GTIDS={}: expected this task, SLURM_PROCID={}, at place SLURM_LOCALID={}",
        fmt::join(step.neighbours, ","), step.place.rank, local_rank));
  }
}

void ReadLocalPlace(const Environment& environment, const Step& step, Identity* identity) {
  const std::vector<int> counts = ReadTaskCounts(environment, step);
  const int64_t num_nodes = std::ssize(step.nodes);
  identity->node_rank =
      NumberOf(environment, "SLURM_NODEID", {0, num_nodes - 1},
               fmt::format("a node below the step's {}, {}", num_nodes, step.node_list));
  if (!step.neighbours.empty()) {
    identity->local_world_size = static_cast<int>(step.neighbours.size());
  } else if (!counts.empty() && identity->node_rank) {
    identity->local_world_size = counts[*identity->node_rank];
  }
  const int size = identity->local_world_size.value_or(identity->world_size);
  identity->local_rank = NumberOf(environment, "SLURM_LOCALID", {0, size - 1},
                                  fmt::format("a rank below the node's {}", size));
  if (!step.neighbours.empty() && identity->local_rank) {
    CheckNeighbours(step, *identity->local_rank);
  }
}

// Whether the order of the node list is that of the ranks.
bool IsInOrder(const Environment& environment, const Step& step, const Identity& identity) {
  if (TextOf(environment, "SLURM_HOSTFILE")) return false;
  if (TextOf(environment, "SLURM_DISTRIBUTION").value_or("").starts_with("arbitrary")) return false;
  const auto node = TextOf(environment, "SLURMD_NODENAME");
  return !node || !identity.node_rank || step.nodes[*identity.node_rank] == *node;
}

void FindRankZero(const Environment& environment, const Step& step, Identity* identity) {
  const auto node = TextOf(environment, "SLURMD_NODENAME");
  Rendezvous& rendezvous = identity->rendezvous;
  if (step.nodes.size() == 1) {
    rendezvous.host = "127.0.0.1";
    rendezvous.host_why = "all tasks of the step are on this machine";
  } else if (node && std::ranges::find(step.neighbours, "0") != step.neighbours.end()) {
    rendezvous.host = *node;
    rendezvous.host_why = "rank 0 is on this machine, SLURMD_NODENAME=" + *node;
  } else if (IsInOrder(environment, step, *identity)) {
    rendezvous.host = step.nodes.front();
    rendezvous.host_why = "the first of SLURM_STEP_NODELIST=" + step.node_list;
  } else {
    rendezvous.host_why = fmt::format(
        "rank 0 may be on any of SLURM_STEP_NODELIST={}, as tasks are in an order of their own",
        step.node_list);
  }
}

void FindPorts(const Surroundings& surroundings, const Step& step, Rendezvous* rendezvous) {
  rendezvous->ports = CandidatePorts(step.job_id, step.id, surroundings.first_ephemeral_port);
  rendezvous->ports_why =
      rendezvous->ports.empty()
          ? fmt::format("no ports are left below {}, where the kernel's own begin",
                        surroundings.first_ephemeral_port)
          : fmt::format("from job {} and step {}, below {}", step.job_id, step.id,
                        surroundings.first_ephemeral_port);
}

// A job that is put back into the queue keeps its number, and what is left of its first start may
// still be about.
std::string Token(const Environment& environment, const Step& step) {
  return fmt::format("slurm {}.{}.{}", step.job_id, step.id,
                     TextOf(environment, "SLURM_RESTART_COUNT").value_or("0"));
}

std::string Explain(const Step& step, const Identity& identity) {
  std::string why = fmt::format("SLURM_PROCID={} of SLURM_STEP_NUM_TASKS={} in step {}.{}",
                                identity.rank, identity.world_size, step.job_id, step.id);
  if (identity.local_rank) why += fmt::format(", SLURM_LOCALID={}", *identity.local_rank);
  if (identity.node_rank) why += fmt::format(", SLURM_NODEID={}", *identity.node_rank);
  return why;
}

}  // namespace

std::optional<Identity> SlurmIdentity(const Surroundings& surroundings) {
  const Environment& environment = surroundings.environment;
  const std::optional<Step> step = ReadStep(surroundings);
  if (!step) return std::nullopt;
  Identity identity;
  identity.launcher = Launcher::kSlurm;
  identity.rank = step->place.rank;
  identity.world_size = step->place.size;
  ReadLocalPlace(environment, *step, &identity);
  FindRankZero(environment, *step, &identity);
  FindPorts(surroundings, *step, &identity.rendezvous);
  identity.rendezvous.token = Token(environment, *step);
  PreferMasterAddress(environment, &identity.rendezvous);
  identity.why = Explain(*step, identity);
  const int num_gpus = CountVisibleGpus(environment).value_or(0);
  if (identity.local_world_size && num_gpus > *identity.local_world_size) {
    identity.warnings.push_back(
        fmt::format("{} for {} on this machine: a rank uses one, see --ntasks-per-node",
                    FormatCount(*identity.local_world_size, "task"), FormatCount(num_gpus, "GPU")));
  }
  return identity;
}

bool IsTaskOfStep(const Surroundings& surroundings) {
  const std::optional<int64_t> task = TaskPid(surroundings.environment);
  for (const Ancestor& ancestor : surroundings.lineage) {
    if (IsMpiLauncher(ancestor.name)) return false;
    if (ancestor.pid == task) return true;
  }
  return false;
}

Identity NoTask(const Environment& environment) {
  Identity identity;
  identity.rendezvous.host_why = identity.rendezvous.ports_why = "there is nobody to meet";
  const auto job = TextOf(environment, "SLURM_JOB_ID");
  if (!job) {
    identity.why = "no launcher's variables are set";
    return identity;
  }
  identity.why = fmt::format(
      "SLURM_JOB_ID={}, but this process is no task of a step: it began in a shell", *job);
  const std::string num_tasks = TextOf(environment, "SLURM_NTASKS").value_or("1");
  if (num_tasks != "1") {
    identity.warnings.push_back(fmt::format(
        "SLURM_NTASKS={}, but this process is none of the tasks: srun starts them", num_tasks));
  }
  return identity;
}

}  // namespace launch
