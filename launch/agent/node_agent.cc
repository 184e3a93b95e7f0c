#include "launch/agent/node_agent.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <system_error>

#include "ddp/store/meeting_point.h"
#include "launch/agent/guardian.h"
#include "launch/agent/terminal.h"

namespace launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How long a rank that lost its peer is kept as the only failure known: the peer itself, whose
// sockets close before the kernel reports its death, gets this long to show up.
constexpr auto kCauseGrace = milliseconds(200);
// Between SIGTERM and SIGKILL to the others when one has failed: there is nothing left to save.
constexpr auto kFailureGrace = milliseconds(2000);
// How long text waits for a slow reader after a signal has ended all ranks.
constexpr auto kOutputPatience = milliseconds(2000);
// How long processes may take to end that were killed.
constexpr auto kTreePatience = milliseconds(10000);

}  // namespace

NodeAgent::NodeAgent(const AgentOptions& options, const std::string& mark,
                     NodeRendezvous* rendezvous)
    : options_(options),
      mark_(mark),
      rendezvous_(rendezvous),
      signals_({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, options.stop_signal}) {}

NodeAgent::~NodeAgent() {
  ranks_.clear();
  tree_.End(kTreePatience);
}

Verdict NodeAgent::Run() {
  TryToTalk([this] { rendezvous_->Join(); });
  HandleRendezvous();
  while (!verdict_ || MustWrite()) {
    WaitForEvents();
    HandleSignals();
    if (!verdict_) HandleRendezvous();
    HandleRanks();
    outputs_.out.Write();
    outputs_.err.Write();
    HandleDeadlines();
  }
  return *verdict_;
}

template <class Talk>
void NodeAgent::TryToTalk(Talk talk) {
  if (broken_) return;
  try {
    talk();
  } catch (const std::exception& error) {
    broken_ = Verdict{1, error.what(), std::nullopt};
    StopBy(Clock::now(), kFailureGrace);
  }
}

// Whoever reads the output may take as long as they like, unless the agent was told to stop.
bool NodeAgent::MustWrite() const {
  const bool has_text = outputs_.out.fd() >= 0 || outputs_.err.fd() >= 0;
  return has_text && !(drop_output_at_ && Clock::now() >= *drop_output_at_);
}

void NodeAgent::WaitForEvents() {
  std::vector<pollfd> events = {{signals_.fd(), POLLIN, 0}};
  for (const Output* output : {&outputs_.out, &outputs_.err}) {
    if (output->fd() >= 0) events.push_back({output->fd(), POLLOUT, 0});
  }
  for (const RankProcess& rank : ranks_) {
    for (const int fd : rank.fds()) events.push_back({fd, POLLIN, 0});
  }
  if (!verdict_ && !broken_) {
    for (const int fd : rendezvous_->fds()) events.push_back({fd, POLLIN, 0});
  }
  if (poll(events.data(), events.size(), MillisecondsToDeadline()) < 0 && errno != EINTR) {
    throw std::system_error(errno, std::generic_category(), "poll");
  }
}

int NodeAgent::MillisecondsToDeadline() const {
  TimePoint next = verdict_ || broken_ ? TimePoint::max() : rendezvous_->next_deadline();
  for (const std::optional<TimePoint>& deadline : {terminate_at_, kill_at_, drop_output_at_}) {
    next = std::min(next, deadline.value_or(next));
  }
  if (next == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(next - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
}

void NodeAgent::HandleSignals() {
  while (const std::optional<ReceivedSignal> signal = signals_.Take()) HandleSignal(*signal);
}

void NodeAgent::HandleSignal(const ReceivedSignal& signal) {
  const bool is_for_ranks =
      signal.number == options_.stop_signal || signal.number == SIGUSR1 || signal.number == SIGUSR2;
  for (RankProcess& rank : ranks_) {
    if (!is_for_ranks) rank.NoteStop(signal.number);
    if (!signal.went_to_group) rank.Signal(signal.number);
  }
  if (is_for_ranks) return;
  const TimePoint now = Clock::now();
  if (signal_) {
    KillBy(now);
    if (verdict_) drop_output_at_ = now;
    return;
  }
  signal_ = signal.number;
  failed_before_signal_ = HasFailed(signal.number);
  if (verdict_) {
    drop_output_at_ = now + kOutputPatience;
    return;
  }
  stopping_ = true;
  KillBy(now + options_.grace);
  TryToTalk([&] { rendezvous_->Leave("stopped by " + DescribeSignal(signal.number)); });
  if (ranks_.empty()) EndGeneration();
}

// Whether a rank has failed by itself. Ctrl-C at a terminal goes to the ranks, too.
bool NodeAgent::HasFailed(int signal_to_all) const {
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const RankProcess& rank) {
    return rank.end().is_own_fault() && rank.end().wait_status != signal_to_all;
  });
}

void NodeAgent::HandleRendezvous() {
  TryToTalk([this] { rendezvous_->Handle(); });
  if (broken_ && ranks_.empty()) verdict_ = broken_;
  if (broken_ || signal_) return;
  if (const std::optional<Over> over = rendezvous_->TakeOver(); over && !ranks_.empty()) {
    StopBy(Clock::now(), over->is_failure ? kFailureGrace : options_.grace);
  }
  while (const std::optional<Plan> plan = rendezvous_->TakePlan()) {
    if (const auto* verdict = std::get_if<Verdict>(&*plan)) {
      verdict_ = *verdict;
    } else {
      Start(std::get<Assignment>(*plan));
    }
  }
}

void NodeAgent::HandleRanks() {
  for (RankProcess& rank : ranks_) {
    if (!rank.running()) continue;
    rank.Handle();
    if (rank.running() || !rank.end().failed()) continue;
    StopBy(rank.end().time + (rank.end().is_own_fault() ? milliseconds(0) : kCauseGrace),
           kFailureGrace);
  }
  const bool all_ended = std::none_of(ranks_.begin(), ranks_.end(),
                                      [](const RankProcess& rank) { return rank.running(); });
  if (!ranks_.empty() && all_ended) EndGeneration();
}

void NodeAgent::StopBy(TimePoint time, milliseconds grace) {
  if (stopping_ || (terminate_at_ && *terminate_at_ <= time)) return;
  terminate_at_ = time;
  grace_ = grace;
}

void NodeAgent::KillBy(TimePoint time) { kill_at_ = std::min(time, kill_at_.value_or(time)); }

void NodeAgent::HandleDeadlines() {
  const TimePoint now = Clock::now();
  if (terminate_at_ && now >= *terminate_at_) {
    terminate_at_.reset();
    stopping_ = true;
    std::vector<RankEnd> ends;
    for (RankProcess& rank : ranks_) {
      if (!rank.running()) ends.push_back(rank.end());
      rank.Stop(SIGTERM);
    }
    if (const auto failure = RootCause(ends)) {
      TryToTalk([&] { rendezvous_->DeclareOver({failure->reason}); });
    }
    KillBy(now + grace_);
  }
  if (kill_at_ && now >= *kill_at_) {
    kill_at_.reset();
    for (RankProcess& rank : ranks_) rank.Kill();
  }
}

void NodeAgent::Start(const Assignment& assignment) {
  if (!assignment.because.empty()) Say(assignment.because);
  for (int local_rank = 0; local_rank < options_.num_ranks; ++local_rank) {
    ranks_.emplace_back(OptionsOf(assignment, local_rank), &outputs_);
  }
}

RankOptions NodeAgent::OptionsOf(const Assignment& assignment, int local_rank) const {
  const int rank = assignment.first_rank + local_rank;
  const std::string restart = std::to_string(assignment.restart);
  RankOptions options;
  options.rank = rank;
  options.command = options_.command;
  options.executable = options_.executable;
  options.has_input = local_rank == 0;
  if (options_.prefix_lines) options.line_prefix = fmt::format("[{}] ", rank);
  if (!options_.log_dir.empty()) {
    options.log_file = fmt::format("{}/rank{}.r{}.log", options_.log_dir, rank, restart);
  }
  options.environment = options_.environment;
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string, std::string>>{
           {"RANK", std::to_string(rank)},
           {"WORLD_SIZE", std::to_string(assignment.world_size)},
           {"LOCAL_RANK", std::to_string(local_rank)},
           {"LOCAL_WORLD_SIZE", std::to_string(options_.num_ranks)},
           {"NODE_RANK", std::to_string(assignment.node_rank)},
           {"GROUP_RANK", std::to_string(assignment.node_rank)},
           {"GROUP_WORLD_SIZE", std::to_string(assignment.num_nodes)},
           {"MASTER_ADDR", assignment.master_addr},
           {"MASTER_PORT", std::to_string(assignment.master_port)},
           {"TORCHELASTIC_RUN_ID", assignment.run_id},
           {"TORCHELASTIC_RESTART_COUNT", restart},
           {ddp::kRunIdVariable, assignment.run_id},
           {ddp::kRestartCountVariable, restart},
           {ddp::kStoreHostedVariable, assignment.store_address},
           {Guardian::kVariable, mark_}}) {
    options.environment[name] = value;
  }
  return options;
}

void NodeAgent::EndGeneration() {
  NodeReport report;
  for (const RankProcess& rank : ranks_) {
    report.ends.push_back(rank.end());
    if (rank.progress()) report.progress = std::max(rank.progress(), report.progress);
  }
  ranks_.clear();
  if (!tree_.End(kTreePatience)) Say("a process that a rank has started can't be killed");
  TryToTalk([&] {
    if (const auto failure = RootCause(report.ends)) rendezvous_->DeclareOver({failure->reason});
    rendezvous_->Finish(report);
  });
  terminate_at_.reset();
  kill_at_.reset();
  stopping_ = false;
  if (signal_) {
    verdict_ = VerdictAfterSignal(report);
    drop_output_at_ = Clock::now() + kOutputPatience;
  } else if (broken_) {
    verdict_ = broken_;
    verdict_->ends = report.ends;
  } else {
    HandleRendezvous();
  }
}

Verdict NodeAgent::VerdictAfterSignal(const NodeReport& report) const {
  const auto any = [&](auto what) { return std::ranges::any_of(report.ends, what); };
  const std::optional<Failure> failure = RootCause(report.ends);
  Verdict verdict{128 + *signal_, "stopped by " + DescribeSignal(*signal_)};
  if (failure && failed_before_signal_) {
    verdict = {failure->exit_code, failure->reason, failure->rank};
  } else if (any([](const RankEnd& end) { return end.report && end.is_own_fault(); })) {
    // It couldn't save what it has, say.
    verdict.reason += "; " + failure->reason;
  } else if (!failure && any([](const RankEnd& end) { return end.asks_for_requeue(); })) {
    verdict.exit_code = kRequeueExitCode;
    verdict.reason += "; the ranks ask to be started again in a new job";
  }
  verdict.ends = report.ends;
  return verdict;
}

void NodeAgent::Say(const std::string& line) {
  outputs_.err.Add(LineStart(outputs_.err.destination()));
  outputs_.err.Add(line + "\n");
}

}  // namespace launch
