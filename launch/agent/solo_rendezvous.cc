#include "launch/agent/solo_rendezvous.h"

#include "ddp/store/meeting_point.h"
#include "ddp/store/socket.h"

namespace launch {
namespace {

constexpr char kHost[] = "127.0.0.1";

}  // namespace

SoloRendezvous::SoloRendezvous(int num_ranks, const std::string& run_id,
                               const RestartLimits& limits)
    : num_ranks_(num_ranks), run_id_(run_id), policy_(limits), store_({.host = kHost}) {}

void SoloRendezvous::StartGeneration() {
  store_.StartOver(ddp::StoreToken(run_id_, std::to_string(policy_.restarts())));
  plan_ = Assignment{.restart = policy_.restarts(),
                     .world_size = num_ranks_,
                     .master_addr = kHost,
                     .master_port = ddp::FreePort(kHost),
                     .store_address = ddp::FormatAddress(kHost, store_.port()),
                     .run_id = run_id_,
                     .because = policy_.why()};
}

void SoloRendezvous::Finish(const NodeReport& report) {
  if (std::optional<Verdict> verdict = policy_.Judge(report)) {
    plan_ = *std::move(verdict);
  } else {
    StartGeneration();
  }
}

}  // namespace launch
