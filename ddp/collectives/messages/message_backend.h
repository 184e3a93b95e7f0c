// MessageBackend: all operations, as messages between ranks.
//
//   call_exchange      ranks agree on what they are about to do; small data travels along
//   direct_reduction   sums of large buffers, between all pairs of ranks
//   chain              the same, and broadcasts, between neighbours: for groups of many ranks
//   point_to_point     sends and receives
//   transport          what gloo/ and mpi/ supply
//
// Up to kMaxDirectRanks ranks, everyone calls everyone, and data goes straight to where it belongs.
// Beyond, ranks call their neighbours only, and all-reduce, reduce, broadcast and barrier touch
// nobody else; the other operations connect the pairs that have something to say to each other.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/messages/call_exchange.h"
#include "ddp/collectives/messages/chain.h"
#include "ddp/collectives/messages/transport.h"
#include "ddp/collectives/scratch.h"

namespace ddp {

inline constexpr int kMaxDirectRanks = 8;

class MessageBackend : public Backend {
 public:
  explicit MessageBackend(std::unique_ptr<Transport> transport);

  void Run(const Operation& operation, const Call& call, Deadline deadline) override;
  void Exchange(std::span<const Operation> operations, Deadline deadline) override;
  ops::Memory Allocate(int64_t num_bytes) override;
  void Stop() override { transport_->Stop(); }
  void Close() override { transport_->Close(); }

 private:
  // All but the reductions: blocks go from rank to rank.
  void MoveBlocks(const Operation& operation, const Call& call, Deadline deadline);
  void ReduceSmall(const Operation& operation, const Call& call, Deadline deadline);
  void ReduceLarge(const Operation& operation, const Call& call, Deadline deadline);

  // Whom this rank calls, with nothing to send or receive yet.
  std::vector<Transfer> PeersIn(const Operation& operation) const;
  // Bytes of the largest part that a rank reduces.
  int64_t LargestPart(const Operation& operation) const;

  const std::unique_ptr<Transport> transport_;
  const bool in_chain_;  // there are many ranks
  const std::vector<Transfer> neighbours_;
  const int64_t max_payload_bytes_;
  CallExchange calls_;
  Chain chain_;
  Scratch scratch_;
};

}  // namespace ddp
