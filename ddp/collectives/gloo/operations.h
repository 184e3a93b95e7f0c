// The operations themselves, as messages between all pairs of ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/gloo/call.h"
#include "ddp/collectives/gloo/call_exchange.h"
#include "ddp/collectives/gloo/mesh.h"

namespace ddp::gloo_backend {

// Memory that grows and stays, for pieces on their way to a sum.
class Scratch {
 public:
  std::byte* Reserve(size_t num_bytes);

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t num_bytes_ = 0;
};

class Operations {
 public:
  explicit Operations(Mesh* mesh) : mesh_(mesh), calls_(mesh) {}

  // Each does what `call` says and returns when this rank's part is done. Throws PeerTrouble,
  // Stopped, Disagreement.
  void AllReduce(const Call& call, const Buffer& buffer, Deadline deadline);
  void Broadcast(const Call& call, const Buffer& buffer, Deadline deadline);
  void AllGather(const Call& call, const Buffer& input, const Buffer& output, Deadline deadline);
  void Barrier(const Call& call, Deadline deadline);
  std::vector<std::string> ExchangeBlobs(const Call& call, const std::string& mine,
                                         Deadline deadline);

 private:
  void AllReduceSmall(const Call& call, const Buffer& buffer, Deadline deadline);
  void AllReduceLarge(const Call& call, const Buffer& buffer, Deadline deadline);
  void AllGatherSmall(const Call& call, const Buffer& input, const Buffer& output,
                      Deadline deadline);
  void AllGatherLarge(const Call& call, const Buffer& input, const Buffer& output,
                      Deadline deadline);
  std::vector<int> Peers() const;

  Mesh* const mesh_;
  CallExchange calls_;
  Scratch scratch_;
};

}  // namespace ddp::gloo_backend
