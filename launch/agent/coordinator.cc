#include "launch/agent/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <tuple>
#include <utility>

#include "ddp/errors.h"
#include "ddp/store/meeting_point.h"
#include "ddp/store/socket.h"
#include "launch/text/text.h"

namespace launch {
namespace {

using namespace std::chrono_literals;

// For the end of a generation; asked again and again.
constexpr auto kLongWait = 1h;
// How long the store stays for agents that haven't heard how the job has ended.
constexpr auto kFarewell = 5s;

bool IsOwnFault(const RankEnd& end) { return end.is_own_fault(); }
bool IsOrderly(const RankEnd& end) { return end.wait_status == 0 && end.stop_signal == 0; }

NodeReport Merge(const std::vector<NodeEnd>& ends) {
  NodeReport all;
  for (const NodeEnd& end : ends) {
    all.ends.insert(all.ends.end(), end.report.ends.begin(), end.report.ends.end());
    if (end.report.progress) all.progress = std::max(all.progress, end.report.progress);
  }
  return all;
}

}  // namespace

std::string GroupKey(int64_t generation, const std::string& name) {
  return fmt::format("{}/{}", generation, name);
}

Coordinator::Coordinator(std::unique_ptr<ddp::TcpStoreServer> server, const GroupOptions& options,
                         const std::string& run_id, const RestartLimits& limits)
    : options_(options),
      run_id_(run_id),
      agents_server_(std::move(server)),
      ranks_server_({.host = ddp::IsLoopback(options.host) ? options.host : ""}),
      store_(options.host, options.port, {.token = options.job_id}),
      policy_(limits),
      thread_([this] { Run(); }) {}

Coordinator::~Coordinator() {
  // The thread may wait for nodes: without its store it stops.
  if (!job_has_ended_) agents_server_.reset();
  thread_.join();
}

void Coordinator::Run() {
  try {
    SayGoodbye(Coordinate());
  } catch (const std::exception&) {
    // The store is gone, and all agents see that.
  }
}

Verdict Coordinator::Coordinate() {
  try {
    store_.Set("generation", "0");
    for (;;) {
      nodes_ = Gather();
      Publish(MakePlan(nodes_));
      NoticeWhoHasGone();
      if (std::optional<Verdict> verdict = Judge(AwaitEnds())) return *std::move(verdict);
    }
  } catch (const std::exception& error) {
    return {1, error.what(), std::nullopt, policy_.restarts()};
  }
}

// Whether one has gone is asked only where that decides: nodes may be many.
std::vector<NodeInfo> Coordinator::Gather() {
  const bool is_first = generation_ == 0;
  const ddp::Duration patience = is_first ? options_.join_timeout : options_.node_wait;
  const ddp::Deadline last = ddp::DeadlineAfter(patience);
  num_joined_ = 0;
  joined_.clear();
  for (ddp::Deadline deadline = last;;) {
    const bool more_came = AwaitMore(deadline);
    if (IsComplete() || !more_came) DropWhoHasGone();
    if (IsComplete() || (!more_came && IsEnough())) return Chosen(joined_);
    if (more_came && is_first && IsEnough()) deadline = ddp::DeadlineAfter(options_.node_wait);
    if (more_came) continue;
    if (ddp::TimeLeft(last) == ddp::Duration::zero()) {
      throw ddp::CollectiveError(fmt::format("{} came within {}, but at least {} must take part{}",
                                             FormatCount(joined_.size(), "node"),
                                             ddp::FormatSeconds(patience), options_.min_nodes,
                                             because_.empty() ? "" : ", after this: " + because_));
    }
    deadline = last;
  }
}

// Returns when another node has joined, with all that have; false when the deadline came first.
bool Coordinator::AwaitMore(ddp::Deadline deadline) {
  const auto next = [this] { return GroupKey(generation_, fmt::format("join/{}", num_joined_)); };
  try {
    store_.Wait({next()}, ddp::TimeLeft(deadline));
  } catch (const ddp::TimeoutError&) {
    return false;
  }
  do {
    joined_.push_back(DecodeNodeInfo(store_.Get(next())));
    ++num_joined_;
  } while (store_.Check({next()}));
  return true;
}

void Coordinator::DropWhoHasGone() {
  std::erase_if(joined_, [this](const NodeInfo& node) {
    return store_.Check({GroupKey(generation_, fmt::format("gone/{}", node.id))});
  });
}

// Whether there is nobody to wait for: all that may come have, or those that were there before.
bool Coordinator::IsComplete() const {
  const auto has_joined = [&](const NodeInfo& node) {
    return std::ranges::count(joined_, node.id, &NodeInfo::id) > 0;
  };
  const bool all_back =
      !must_replace_ && !nodes_.empty() && std::ranges::all_of(nodes_, has_joined);
  return static_cast<int>(joined_.size()) >= options_.max_nodes || all_back;
}

bool Coordinator::IsEnough() const {
  return static_cast<int>(joined_.size()) >= options_.min_nodes;
}

// Those that were there before keep their order and go first; then who asks for a node rank.
std::vector<NodeInfo> Coordinator::Chosen(std::vector<NodeInfo> joined) const {
  const auto place = [&](const NodeInfo& node) {
    const auto before = std::ranges::find(nodes_, node.id, &NodeInfo::id);
    return std::tuple(before - nodes_.begin(), node.node_rank.value_or(options_.max_nodes),
                      node.id);
  };
  std::ranges::sort(joined, {}, place);
  if (static_cast<int>(joined.size()) > options_.max_nodes) joined.resize(options_.max_nodes);
  std::ranges::sort(joined, {}, [&](const NodeInfo& node) {
    return std::pair(node.node_rank.value_or(options_.max_nodes), place(node));
  });
  for (size_t i = 1; i < joined.size(); ++i) {
    if (joined[i].node_rank && joined[i].node_rank == joined[i - 1].node_rank) {
      throw ddp::CollectiveError(fmt::format("two nodes have --node_rank={}: {} and {}",
                                             *joined[i].node_rank, joined[i - 1].host,
                                             joined[i].host));
    }
  }
  return joined;
}

GroupPlan Coordinator::MakePlan(std::vector<NodeInfo> nodes) {
  ranks_server_.StartOver(ddp::StoreToken(run_id_, std::to_string(generation_)));
  return {.nodes = std::move(nodes),
          .max_nodes = options_.max_nodes,
          .restart = static_cast<int>(generation_),
          .store_address = ddp::FormatAddress(options_.host, ranks_server_.port()),
          .run_id = run_id_,
          .because = because_,
          .verdict = std::nullopt};
}

void Coordinator::Publish(const GroupPlan& plan) {
  // Of one that joined and went: it is not among the nodes, and ends nothing.
  store_.Delete(GroupKey(generation_, "over"));
  store_.Set("generation", std::to_string(generation_ + 1));
  store_.Set(GroupKey(generation_, "plan"), Encode(plan));
  ++generation_;
}

std::string Coordinator::RunningKey(const std::string& name) const {
  return GroupKey(generation_ - 1, name);
}

// One may have been lost after it was chosen, and its word that the generation is over deleted.
void Coordinator::NoticeWhoHasGone() {
  for (const NodeInfo& node : nodes_) {
    if (!store_.Check({RunningKey(fmt::format("gone/{}", node.id))})) continue;
    store_.CompareAndSet(RunningKey("over"), "", Encode(Over{node.host + " was lost"}));
  }
}

std::vector<NodeEnd> Coordinator::AwaitEnds() {
  std::vector<std::string> keys;
  for (const NodeInfo& node : nodes_) {
    keys.push_back(RunningKey(fmt::format("end/{}", node.id)));
  }
  for (bool all = false; !all;) {
    try {
      store_.Wait(keys, kLongWait);
      all = true;
    } catch (const ddp::TimeoutError&) {
    }
  }
  std::vector<NodeEnd> ends;
  for (const std::string& key : keys) ends.push_back(DecodeNodeEnd(store_.Get(key)));
  return ends;
}

std::optional<Verdict> Coordinator::Judge(const std::vector<NodeEnd>& ends) {
  const NodeReport all = Merge(ends);
  std::optional<std::string> lost;
  must_replace_ = false;
  for (const NodeEnd& end : ends) {
    if (!lost) lost = end.lost;
    must_replace_ |= end.has_left || end.lost;
  }
  const std::optional<Over> over = WhyOver();
  const bool is_done = !lost && std::ranges::all_of(all.ends, IsOrderly);
  const bool nodes_changed =
      over && !over->is_failure && !lost && !is_done && std::ranges::none_of(all.ends, IsOwnFault);
  if (nodes_changed) {
    because_ = over->reason + "; the ranks start again with the nodes that are there";
    return std::nullopt;
  }
  std::optional<Verdict> verdict = policy_.Judge(all, lost);
  because_ = policy_.why();
  return verdict;
}

std::optional<Over> Coordinator::WhyOver() {
  const std::string key = RunningKey("over");
  return store_.Check({key}) ? std::optional(DecodeOver(store_.Get(key))) : std::nullopt;
}

void Coordinator::SayGoodbye(const Verdict& verdict) {
  job_has_ended_ = true;
  Publish({.verdict = verdict});
  // Also of those that are long gone: their last word was the same.
  const int64_t last_id = store_.Add("agents", 0);
  std::vector<std::string> keys;
  for (int64_t id = 0; id <= last_id; ++id) keys.push_back(fmt::format("bye/{}", id));
  try {
    store_.Wait(keys, kFarewell);
  } catch (const ddp::TimeoutError&) {
    // Somebody is slow to hear it, and will see that the store is gone.
  }
}

}  // namespace launch
