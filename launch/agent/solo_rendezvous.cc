#include "launch/agent/solo_rendezvous.h"

#include "ddp/store/socket.h"

namespace launch {
namespace {

constexpr char kHost[] = "127.0.0.1";

}  // namespace

void SoloRendezvous::StartGeneration() {
  store_ = std::make_unique<ddp::TcpStoreServer>(ddp::TcpStoreServerOptions{.host = kHost});
  plan_ = Assignment{.restart = policy_.restarts(),
                     .world_size = num_ranks_,
                     .master_addr = kHost,
                     .master_port = ddp::FreePort(kHost),
                     .store_address = ddp::FormatAddress(kHost, store_->port()),
                     .run_id = run_id_,
                     .because = policy_.why()};
}

void SoloRendezvous::Finish(NodeReport report) {
  if (std::optional<Verdict> verdict = policy_.Judge(report)) {
    plan_ = *std::move(verdict);
  } else {
    StartGeneration();
  }
}

}  // namespace launch
