#include "ddp/collectives/messages/call_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ddp {
namespace {

constexpr Slot SlotOf(int parity) { return parity == 0 ? Slot::kCallEven : Slot::kCallOdd; }

}  // namespace

CallExchange::Lane::Lane(Transport* transport, int peer, size_t message_bytes, Deadline deadline)
    : outbox(std::make_unique_for_overwrite<std::byte[]>(message_bytes)),
      sends(transport->Open(peer, outbox.get(), message_bytes, deadline)) {
  for (const int parity : {0, 1}) {
    inboxes[parity] = std::make_unique_for_overwrite<std::byte[]>(message_bytes);
    receives[parity] = transport->Open(peer, inboxes[parity].get(), message_bytes, deadline);
    receives[parity]->Receive(SlotOf(parity), 0, message_bytes);
  }
}

void CallExchange::Connect(std::span<const Transfer> transfers, Deadline deadline) {
  for (const Transfer& transfer : transfers) {
    std::unique_ptr<Lane>& lane = lanes_[transfer.peer];
    if (lane != nullptr) continue;
    lane = std::make_unique<Lane>(transport_, transfer.peer, sizeof(Head) + max_payload_bytes_,
                                  deadline);
  }
}

void CallExchange::Exchange(const Call& call, std::span<const Transfer> transfers,
                            Deadline deadline) {
  Connect(transfers, deadline);
  for (const Transfer& transfer : transfers) Send(call, transfer);
  AwaitCalls(call, transfers, deadline);
}

void CallExchange::Finish(std::span<const Transfer> transfers, Deadline deadline) {
  for (const Transfer& transfer : transfers) {
    Lane& lane = *lanes_[transfer.peer];
    lane.sends->AwaitSends(deadline);
    // A peer that has left, as it may after an operation, is an error for the next one only.
    try {
      lane.receives[lane.parity]->Receive(SlotOf(lane.parity), 0,
                                          sizeof(Head) + max_payload_bytes_);
    } catch (const PeerTrouble&) {
    }
    lane.parity = 1 - lane.parity;
  }
}

void CallExchange::Send(const Call& call, const Transfer& transfer) {
  Lane& lane = *lanes_[transfer.peer];
  const Head head{call, transfer.sent.size(), transfer.received.size()};
  std::memcpy(lane.outbox.get(), &head, sizeof head);
  size_t num_bytes = sizeof head;
  if (Carries(transfer.sent)) {
    std::ranges::copy(transfer.sent, lane.outbox.get() + num_bytes);
    num_bytes += transfer.sent.size();
  }
  lane.sends->Send(SlotOf(lane.parity), 0, num_bytes);
}

// A peer may be slow while another is gone: whoever is lost before it has called ends the wait.
void CallExchange::AwaitCalls(const Call& call, std::span<const Transfer> transfers,
                              Deadline deadline) {
  std::vector<int> missing;
  for (const Transfer& transfer : transfers) missing.push_back(transfer.peer);
  std::vector<int> late;
  while (!missing.empty()) {
    const int peer = transport_->FindLost(missing).value_or(missing.front());
    const Lane& lane = *lanes_[peer];
    try {
      if (!lane.receives[lane.parity]->AwaitReceiveUnlessLost(missing, deadline)) continue;
      Take(call, *std::ranges::find(transfers, peer, &Transfer::peer));
    } catch (const PeerTrouble& trouble) {
      if (trouble.kind() != PeerTrouble::kTimedOut) throw;
      late.push_back(peer);
    }
    std::erase(missing, peer);
  }
  if (!late.empty()) throw PeerTrouble(PeerTrouble::kTimedOut, late);
}

void CallExchange::Take(const Call& call, const Transfer& transfer) const {
  const int rank = transport_->rank(), peer = transfer.peer;
  const std::byte* const message = lanes_[peer]->inbox();
  Head theirs;
  std::memcpy(&theirs, message, sizeof theirs);
  if (theirs.call != call) {
    throw Disagreement(peer, DescribeDisagreement(rank, call, peer, theirs.call));
  }
  const auto compare = [&](int from, uint64_t sent, int to, uint64_t received) {
    if (sent == received) return;
    throw Disagreement(peer, fmt::format("{}: rank {} sends {} bytes to rank {}, which takes {}",
                                         Describe(call), from, sent, to, received));
  };
  compare(peer, theirs.sent_bytes, rank, transfer.received.size());
  compare(rank, transfer.sent.size(), peer, theirs.received_bytes);
  if (Carries(transfer.received)) {
    std::copy_n(message + sizeof theirs, transfer.received.size(), transfer.received.data());
  }
}

}  // namespace ddp
