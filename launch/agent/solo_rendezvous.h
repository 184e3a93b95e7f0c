// SoloRendezvous: that of a job on one node, where there is nobody to agree with.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ddp/store/tcp_store_server.h"
#include "launch/agent/rendezvous.h"
#include "launch/agent/restart_policy.h"

namespace launch {

class SoloRendezvous : public NodeRendezvous {
 public:
  SoloRendezvous(int num_ranks, std::string run_id, const RestartLimits& limits)
      : num_ranks_(num_ranks), run_id_(std::move(run_id)), policy_(limits) {}

  void Join() override { StartGeneration(); }
  std::vector<int> fds() const override { return {}; }
  TimePoint next_deadline() const override { return TimePoint::max(); }
  void Handle() override {}
  std::optional<Plan> TakePlan() override { return std::exchange(plan_, std::nullopt); }
  std::optional<Over> TakeOver() override { return std::nullopt; }
  void DeclareOver(const Over&) override {}
  void Finish(NodeReport report) override;
  void Leave(const std::string&) override {}

 private:
  void StartGeneration();

  const int num_ranks_;
  const std::string run_id_;
  RestartPolicy policy_;
  // Held here, the store outlives every rank, and its port is taken before anyone is told of it.
  std::unique_ptr<ddp::TcpStoreServer> store_;
  std::optional<Plan> plan_;
};

}  // namespace launch
