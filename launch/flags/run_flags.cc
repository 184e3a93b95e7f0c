#include "launch/flags/run_flags.h"

#include <absl/flags/flag.h>
#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ddp/store/interfaces.h"
#include "ddp/store/socket.h"
#include "launch/flags/parser.h"
#include "launch/flags/signal_names.h"
#include "launch/text/text.h"

ABSL_FLAG(int64_t, nproc_per_node, 1, "ranks to start on this node");
ABSL_FLAG(
    std::string, nnodes, "1",
    "nodes that take part: N, or MIN:MAX, and then those that are left go on without the rest");
ABSL_FLAG(std::optional<int64_t>, node_rank, std::nullopt,
          "of this node, 0 to N-1; as they come where not given");
ABSL_FLAG(std::string, rendezvous, "",
          "HOST:PORT, the same on all nodes, where their agents meet: the first on that host holds "
          "the store, or node 0");
ABSL_FLAG(bool, standalone, false, "this node is all there is, whatever else is set");
ABSL_FLAG(std::string, job_id, "",
          "keeps jobs apart that meet at one address; Slurm's job and step, or the command if not "
          "given");
ABSL_FLAG(
    std::string, interface, "",
    "network interface that other nodes reach this one by: its name, the beginning of that, or "
    "an address; the one that leads to the rendezvous if not given");
ABSL_FLAG(absl::Duration, join_timeout, absl::Minutes(10), "longest wait for the nodes to come");
ABSL_FLAG(absl::Duration, node_wait, absl::Seconds(5),
          "wait for more nodes once MIN are there, or for one in the place of one that is gone");
ABSL_FLAG(absl::Duration, heartbeat_timeout, absl::Seconds(10),
          "silence of a node after which it counts as lost");

ABSL_FLAG(int64_t, max_restarts, 0, "how often all ranks are started again after a failure");
ABSL_FLAG(int64_t, max_stalled_attempts, 3,
          "attempts in a row that come no further than those before, after which none follows");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(30),
          "what ranks get between INT, TERM or HUP and KILL to save what they have");
ABSL_FLAG(std::string, stop_signal, "USR1",
          "is passed on to the ranks, who decide what it means: save and end with 75, say");

ABSL_FLAG(std::string, log_dir, "",
          "folder for what each rank prints: rank3.r0.log, where r0 counts restarts");
ABSL_FLAG(bool, log_prefix, false, "begin each line that a rank prints with [RANK]");
ABSL_FLAG(std::string, error_file, "",
          "where to say as JSON how the job has failed; $DDP_ERROR_FILE if not given");

namespace launch {
namespace {

constexpr int kMany = 1'000'000;

const FlagGroups& Groups() {
  static const FlagGroups groups = {
      {"Ranks", {"nproc_per_node"}},
      {"Nodes",
       {"nnodes", "node_rank", "rendezvous", "standalone", "job_id", "interface", "join_timeout",
        "node_wait", "heartbeat_timeout"}},
      {"Failures", {"max_restarts", "max_stalled_attempts", "grace", "stop_signal", "error_file"}},
      {"Logs", {"log_dir", "log_prefix"}}};
  return groups;
}

std::chrono::milliseconds Milliseconds(const char* name, absl::Duration value) {
  if (value >= absl::ZeroDuration() && value <= absl::Hours(24)) {
    return absl::ToChronoMilliseconds(value);
  }
  throw std::invalid_argument(
      fmt::format("--{}={}: expected 0s to 24h", name, absl::FormatDuration(value)));
}

// "4" or "2:4".
std::pair<int, int> NumNodes() {
  const std::string text = absl::GetFlag(FLAGS_nnodes);
  std::string list = text;
  std::ranges::replace(list, ':', ',');
  const std::optional<std::vector<int64_t>> numbers = ParseWholeNumbers(list);
  const bool has_two = numbers && numbers->size() == 2 && text.find(':') != text.npos;
  const bool is_one = numbers && numbers->size() == 1;
  if ((!has_two && !is_one) || numbers->front() < 1 || numbers->back() < numbers->front()) {
    throw std::invalid_argument(
        fmt::format("--nnodes={}: expected N, or MIN:MAX with 1 <= MIN <= MAX", text));
  }
  return {numbers->front(), numbers->back()};
}

// What tells this job from others that might meet at the same address.
std::string JobId(const std::vector<std::string>& command, const Environment& environment) {
  if (const std::string given = absl::GetFlag(FLAGS_job_id); !given.empty()) return given;
  if (const auto job = environment("SLURM_JOB_ID")) {
    return fmt::format("slurm job {}.{}", *job, environment("SLURM_STEP_ID").value_or(""));
  }
  return fmt::format("{} nodes of {}", absl::GetFlag(FLAGS_nnodes), fmt::join(command, " "));
}

std::optional<int> NodeRank(int max_nodes) {
  const std::optional<int64_t> rank = absl::GetFlag(FLAGS_node_rank);
  if (rank && (*rank < 0 || *rank >= max_nodes)) {
    throw std::invalid_argument(fmt::format("--node_rank={}: expected 0 to {}, as --nnodes={}",
                                            *rank, max_nodes - 1, absl::GetFlag(FLAGS_nnodes)));
  }
  return rank ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

std::string OwnAddress() {
  const std::string interface = absl::GetFlag(FLAGS_interface);
  if (interface.empty()) return "";
  return NamingFlag("interface", interface,
                    [&] { return ddp::ChooseInterface(ddp::ListInterfaces(), interface); });
}

std::optional<GroupOptions> Group(const std::vector<std::string>& command,
                                  const Environment& environment) {
  const auto [min_nodes, max_nodes] = NumNodes();
  const std::string rendezvous = absl::GetFlag(FLAGS_rendezvous);
  if (absl::GetFlag(FLAGS_standalone)) return std::nullopt;
  if (rendezvous.empty()) {
    if (max_nodes == 1) return std::nullopt;
    throw std::invalid_argument(
        fmt::format("--nnodes={}: --rendezvous=HOST:PORT must say where "
                    "the nodes meet",
                    absl::GetFlag(FLAGS_nnodes)));
  }
  GroupOptions group;
  group.min_nodes = min_nodes;
  group.max_nodes = max_nodes;
  const ddp::HostAndPort address =
      NamingFlag("rendezvous", rendezvous, [&] { return ddp::ParseAddress(rendezvous); });
  if (address.port == 0) {
    throw std::invalid_argument(
        fmt::format("--rendezvous={}: expected a port from 1, the same on all nodes", rendezvous));
  }
  group.host = address.host;
  group.port = address.port;
  group.job_id = JobId(command, environment);
  group.node_rank = NodeRank(max_nodes);
  group.address = OwnAddress();
  group.join_timeout = Milliseconds("join_timeout", absl::GetFlag(FLAGS_join_timeout));
  group.node_wait = Milliseconds("node_wait", absl::GetFlag(FLAGS_node_wait));
  group.heartbeat_timeout =
      Milliseconds("heartbeat_timeout", absl::GetFlag(FLAGS_heartbeat_timeout));
  return group;
}

// As a shell would find it where the user typed the command: one with a slash is a path from there.
std::string Program(const std::string& name, const Environment& environment) {
  return name.find('/') == std::string::npos ? name : FromUsersDirectory(name, environment);
}

}  // namespace

std::string RunHelpText() {
  return "Starts PROGRAM on several ranks, with torchrun's variables:\n"
         "  bazel run //launch:run -- [flags] PROGRAM ARGUMENTS...\n\n" +
         DescribeFlags(Groups(), {});
}

RunCommandLine ParseRunCommandLine(const std::vector<std::string>& arguments,
                                   const Environment& environment) {
  const auto program = arguments.begin() + SetLeadingFlags(arguments, Groups());
  if (AsksForHelp({arguments.begin(), program})) return {.asks_for_help = true, .agent = {}};
  if (program == arguments.end()) {
    throw std::invalid_argument("no program to run: [flags] PROGRAM ARGUMENTS...; --help has more");
  }
  AgentOptions agent;
  agent.command.assign(program, arguments.end());
  agent.command[0] = Program(agent.command[0], environment);
  agent.num_ranks = NumberFrom(1, kMany, "nproc_per_node", absl::GetFlag(FLAGS_nproc_per_node));
  agent.restarts.max_restarts =
      NumberFrom(0, kMany, "max_restarts", absl::GetFlag(FLAGS_max_restarts));
  agent.restarts.max_stalled_attempts =
      NumberFrom(1, kMany, "max_stalled_attempts", absl::GetFlag(FLAGS_max_stalled_attempts));
  agent.group = Group(agent.command, environment);
  agent.grace = Milliseconds("grace", absl::GetFlag(FLAGS_grace));
  agent.stop_signal = ParseStopSignal(absl::GetFlag(FLAGS_stop_signal));
  agent.prefix_lines = absl::GetFlag(FLAGS_log_prefix);
  agent.log_dir = FromUsersDirectory(absl::GetFlag(FLAGS_log_dir), environment);
  agent.error_file = FromUsersDirectory(absl::GetFlag(FLAGS_error_file), environment);
  if (agent.error_file.empty()) agent.error_file = environment("DDP_ERROR_FILE").value_or("");
  return {.asks_for_help = false, .agent = agent};
}

}  // namespace launch
