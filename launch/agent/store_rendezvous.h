// StoreRendezvous: that of a job on several nodes, whose agents meet at a store on one of them.
//
// One of them, whose machine has the address and which comes first, holds the store and decides for
// all (coordinator.h). The others can't go on without it. The death of any other is noticed at once
// where its connection breaks, else after the heartbeat timeout.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/store/lifeline.h"
#include "ddp/store/tcp_store.h"
#include "launch/agent/coordinator.h"
#include "launch/agent/group_options.h"
#include "launch/agent/rendezvous.h"
#include "launch/agent/restart_policy.h"

namespace launch {

class StoreRendezvous : public NodeRendezvous {
 public:
  // `run_id` and `limits` count where this agent holds the store.
  StoreRendezvous(const GroupOptions& options, int num_ranks, const std::string& run_id,
                  const RestartLimits& limits);

  // Only begins to: Handle connects when it can, and throws std::system_error, ddp::TimeoutError or
  // ddp::CollectiveError when that is not to be.
  void Join() override;
  std::vector<int> fds() const override;
  TimePoint next_deadline() const override;
  void Handle() override;
  std::optional<Plan> TakePlan() override { return std::exchange(plan_, std::nullopt); }
  std::optional<Over> TakeOver() override { return std::exchange(over_, std::nullopt); }
  void DeclareOver(const Over& over) override;
  void Finish(const NodeReport& report) override;
  void Leave(const std::string& reason) override;

 private:
  void TryToConnect();
  void HostIfFirst();
  void JoinGeneration(int64_t generation);
  void AskForAPlaceIn(int64_t generation);
  void FollowPlan(const std::string& text);
  void SetWill(const std::string& name);
  void SayGoodbye();
  std::string Key(const std::string& name) const { return GroupKey(generation_, name); }
  std::string OwnKey(const std::string& name) const;
  std::string OwnAddress() const;
  // Calls `talk`. A lost store is the end, unless this node has left anyway.
  template <class Talk>
  void Guarded(Talk talk);

  const GroupOptions options_;
  const int num_ranks_;
  const std::string run_id_;
  const RestartLimits limits_;
  const ddp::StoreAddress address_;
  const std::string host_name_;
  TimePoint join_deadline_, next_try_;
  std::unique_ptr<Coordinator> coordinator_;  // here only
  std::unique_ptr<ddp::TcpStore> store_;
  std::optional<ddp::Lifeline> lifeline_;
  std::optional<ddp::StoreWatch> plan_watch_, over_watch_;
  int64_t id_ = 0;
  int64_t generation_ = -1;
  bool takes_part_ = false;  // in that generation
  bool has_left_ = false;
  bool is_lost_ = false;  // the store, after this node has left
  std::optional<Plan> plan_;
  std::optional<Over> over_;
};

}  // namespace launch
