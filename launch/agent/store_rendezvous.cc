#include "launch/agent/store_rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "ddp/errors.h"
#include "ddp/store/socket.h"

namespace launch {
namespace {

using namespace std::chrono_literals;

// Nobody may be there yet. While it tries, the agent hears no signals.
constexpr auto kAttempt = 1s;
constexpr auto kBetweenAttempts = 100ms;

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// Whether this machine has the address.
bool IsOwn(const std::string& host) {
  try {
    ddp::Listen(host, 0);
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace

StoreRendezvous::StoreRendezvous(const GroupOptions& options, int num_ranks,
                                 const std::string& run_id, const RestartLimits& limits)
    : options_(options),
      num_ranks_(num_ranks),
      run_id_(run_id),
      limits_(limits),
      address_{options.host, options.port, options.job_id},
      host_name_(HostName()) {}

void StoreRendezvous::Join() {
  join_deadline_ = ddp::DeadlineAfter(options_.join_timeout);
  next_try_ = ddp::Clock::now();
}

std::vector<int> StoreRendezvous::fds() const {
  std::vector<int> fds;
  if (is_lost_) return fds;
  if (lifeline_) fds.push_back(lifeline_->fd());
  if (plan_watch_) fds.push_back(plan_watch_->fd());
  if (over_watch_) fds.push_back(over_watch_->fd());
  return fds;
}

TimePoint StoreRendezvous::next_deadline() const {
  if (is_lost_) return TimePoint::max();
  return lifeline_ ? lifeline_->next_ping() : next_try_;
}

void StoreRendezvous::Handle() {
  Guarded([this] {
    if (!lifeline_) return TryToConnect();
    lifeline_->Handle();
    if (over_watch_) {
      if (const auto text = over_watch_->Take()) {
        over_ = DecodeOver(*text);
        over_watch_.reset();
      }
    }
    if (plan_watch_) {
      if (const auto text = plan_watch_->Take()) FollowPlan(*text);
    }
  });
}

template <class Talk>
void StoreRendezvous::Guarded(Talk talk) {
  if (is_lost_) return;
  try {
    talk();
  } catch (const ddp::CollectiveError& error) {
    if (!has_left_ && !lifeline_) throw;
    if (!has_left_) {
      throw ddp::CollectiveError(
          fmt::format("{}; without the node that holds it the job can't go on", error.what()));
    }
    is_lost_ = true;
  }
}

void StoreRendezvous::TryToConnect() {
  if (has_left_ || ddp::Clock::now() < next_try_) return;
  HostIfFirst();
  try {
    ddp::Connect(address_.host, address_.port, ddp::DeadlineAfter(kAttempt));
  } catch (const std::system_error& error) {
    next_try_ = ddp::DeadlineAfter(kBetweenAttempts);
    const bool is_final = error.code() == std::errc::address_not_available;
    if (!is_final && next_try_ < join_deadline_) return;
    throw;
  }
  store_ = std::make_unique<ddp::TcpStore>(
      address_.host, address_.port,
      ddp::TcpStoreOptions{.timeout = options_.heartbeat_timeout, .token = address_.token});
  // The one with the store goes first: it is needed whoever else takes part.
  id_ = coordinator_ ? 0 : store_->Add("agents", 1);
  lifeline_.emplace(address_, options_.heartbeat_timeout);
  const int64_t generation = std::stoll(store_->Get("generation"));
  JoinGeneration(generation);
  if (generation > 0) AskForAPlaceIn(generation - 1);
}

void StoreRendezvous::HostIfFirst() {
  const bool may_host = options_.node_rank.value_or(0) == 0;
  if (coordinator_ || !may_host || !IsOwn(options_.host)) return;
  std::unique_ptr<ddp::TcpStoreServer> server;
  try {
    server = std::make_unique<ddp::TcpStoreServer>(
        ddp::TcpStoreServerOptions{.host = ddp::IsLoopback(options_.host) ? options_.host : "",
                                   .port = options_.port,
                                   .token = options_.job_id});
  } catch (const std::system_error& error) {
    // Another agent of this machine came first.
    if (error.code() == std::errc::address_in_use && !options_.node_rank) return;
    throw;
  }
  coordinator_ = std::make_unique<Coordinator>(std::move(server), options_, run_id_, limits_);
}

void StoreRendezvous::JoinGeneration(int64_t generation) {
  generation_ = generation;
  takes_part_ = false;
  SetWill(host_name_);
  const NodeInfo info{.id = id_,
                      .host = host_name_,
                      .address = OwnAddress(),
                      .free_port = ddp::FreePort(""),
                      .num_ranks = num_ranks_,
                      .node_rank = options_.node_rank};
  const int64_t number = store_->Add(Key("joined"), 1) - 1;
  store_->Set(Key(fmt::format("join/{}", number)), Encode(info));
  plan_watch_.emplace(address_, Key("plan"), options_.heartbeat_timeout);
}

// Those that are at work without all that might take part start again with this node.
void StoreRendezvous::AskForAPlaceIn(int64_t generation) {
  const GroupPlan plan = DecodeGroupPlan(store_->Get(GroupKey(generation, "plan")));
  if (plan.verdict || static_cast<int>(plan.nodes.size()) >= plan.max_nodes) return;
  store_->CompareAndSet(GroupKey(generation, "over"), "",
                        Encode(Over{host_name_ + " has come", false}));
}

void StoreRendezvous::SetWill(const std::string& name) {
  const std::string lost = fmt::format("{} was lost: its agent ended, or was silent for {}", name,
                                       ddp::FormatSeconds(options_.heartbeat_timeout));
  lifeline_->SetWill({{OwnKey("gone"), ""},
                      {OwnKey("end"), Encode(NodeEnd{.lost = lost})},
                      {Key("over"), Encode(Over{lost})},
                      {fmt::format("bye/{}", id_), ""}});
}

void StoreRendezvous::FollowPlan(const std::string& text) {
  plan_watch_.reset();
  GroupPlan plan = DecodeGroupPlan(text);
  if (plan.verdict) {
    plan_ = *std::move(plan.verdict);
    SayGoodbye();
  } else if (const auto assignment = AssignmentOf(plan, id_)) {
    takes_part_ = true;
    plan_ = *assignment;
    SetWill(fmt::format("node {} ({})", assignment->node_rank, host_name_));
    over_watch_.emplace(address_, Key("over"), options_.heartbeat_timeout);
  } else {
    // It came while the plan was made, or is one too many.
    JoinGeneration(generation_ + 1);
    AskForAPlaceIn(generation_ - 1);
  }
}

// The last that is said to the store, which may go then.
void StoreRendezvous::SayGoodbye() {
  lifeline_->SetWill({});
  store_->Set(fmt::format("bye/{}", id_), "");
}

void StoreRendezvous::DeclareOver(const Over& over) {
  Guarded([&] { store_->CompareAndSet(Key("over"), "", Encode(over)); });
}

void StoreRendezvous::Finish(const NodeReport& report) {
  if (!lifeline_) return;
  Guarded([&] {
    over_watch_.reset();
    over_.reset();
    if (takes_part_) {
      store_->Set(OwnKey("end"), Encode(NodeEnd{report, has_left_, std::nullopt}));
    }
    if (!has_left_) return JoinGeneration(generation_ + 1);
    store_->Set(OwnKey("gone"), "");
    SayGoodbye();
  });
}

void StoreRendezvous::Leave(const std::string& reason) {
  has_left_ = true;
  plan_watch_.reset();
  if (takes_part_) DeclareOver({fmt::format("{} leaves, {}", host_name_, reason), false});
}

std::string StoreRendezvous::OwnKey(const std::string& name) const {
  return Key(fmt::format("{}/{}", name, id_));
}

// Others don't reach this node by its loopback interface, which leads to the store where that is
// here: but they reach the store.
std::string StoreRendezvous::OwnAddress() const {
  if (!options_.address.empty()) return options_.address;
  const std::string address = store_->local_address();
  return ddp::IsLoopback(address) ? options_.host : address;
}

}  // namespace launch
