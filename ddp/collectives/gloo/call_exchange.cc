#include "ddp/collectives/gloo/call_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ddp::gloo_backend {
namespace {

constexpr Slot SlotOf(int parity) { return parity == 0 ? kCallEven : kCallOdd; }

}  // namespace

CallExchange::Peer::Peer(Mesh* mesh, int rank, Message* outbox)
    : rank(rank),
      inboxes(std::make_unique<Message[]>(2)),
      receives{mesh->Open(rank, &inboxes[0], sizeof(Message)),
               mesh->Open(rank, &inboxes[1], sizeof(Message))},
      sends(mesh->Open(rank, outbox, sizeof(Message))) {}

CallExchange::CallExchange(Mesh* mesh) : mesh_(mesh), outbox_(std::make_unique<Message>()) {
  for (int rank = 0; rank < mesh->size(); ++rank) {
    if (rank == mesh->rank()) continue;
    peers_.push_back(std::make_unique<Peer>(mesh, rank, outbox_.get()));
    for (const int parity : {0, 1}) {
      peers_.back()->receives[parity].Receive(SlotOf(parity), 0, sizeof(Message));
    }
  }
}

void CallExchange::Exchange(const Call& call, std::span<const std::byte> payload,
                            Deadline deadline) {
  outbox_->call = call;
  outbox_->payload_bytes = static_cast<int64_t>(payload.size());
  std::ranges::copy(payload, outbox_->payload);
  for (const auto& peer : peers_) peer->sends.Send(SlotOf(parity_), 0, kHeadBytes + payload.size());
  AwaitCalls(deadline);
  CompareCalls(call);
}

std::span<const std::byte> CallExchange::Payload(int peer) const {
  const auto& found = peers_[peer < mesh_->rank() ? peer : peer - 1];
  const Message& message = MessageOf(*found);
  return {message.payload, static_cast<size_t>(message.payload_bytes)};
}

void CallExchange::Finish(Deadline deadline) {
  for (const auto& peer : peers_) {
    peer->sends.AwaitSends(deadline);
    // A peer that has left, as it may after an operation, is an error for the next one only.
    try {
      peer->receives[parity_].Receive(SlotOf(parity_), 0, sizeof(Message));
    } catch (const PeerTrouble&) {
    }
  }
  parity_ = 1 - parity_;
}

// A peer may be slow while another is gone: whoever is lost before it has called ends the wait.
void CallExchange::AwaitCalls(Deadline deadline) {
  std::vector<int> missing;
  for (const auto& peer : peers_) missing.push_back(peer->rank);
  const auto receive_from = [this](int rank) -> Channel& {
    return peers_[rank < mesh_->rank() ? rank : rank - 1]->receives[parity_];
  };
  std::vector<int> late;
  while (!missing.empty()) {
    const int rank = mesh_->FindLost(missing).value_or(missing.front());
    try {
      if (!receive_from(rank).AwaitReceiveUnlessLost(missing, deadline)) continue;
    } catch (const PeerTrouble& trouble) {
      if (trouble.kind() != PeerTrouble::kTimedOut) throw;
      late.push_back(rank);
    }
    std::erase(missing, rank);
  }
  if (!late.empty()) throw PeerTrouble(PeerTrouble::kTimedOut, late);
}

void CallExchange::CompareCalls(const Call& call) const {
  for (const auto& peer : peers_) {
    const Call& theirs = MessageOf(*peer).call;
    if (theirs == call) continue;
    throw Disagreement(peer->rank,
                       fmt::format("rank {} called {}, rank {} called {}", mesh_->rank(),
                                   Describe(call), peer->rank, Describe(theirs)));
  }
}

}  // namespace ddp::gloo_backend
