// CallExchange: the first step of every operation. Each rank tells each other what it is about to
// do; small data travels along, and then is all that travels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/gloo/call.h"
#include "ddp/collectives/gloo/mesh.h"

namespace ddp::gloo_backend {

// Ranks that are at different operations.
class Disagreement : public std::exception {
 public:
  Disagreement(int peer, std::string what) : peer_(peer), what_(std::move(what)) {}
  int peer() const { return peer_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  int peer_;
  std::string what_;
};

class CallExchange {
 public:
  // What fits into a message beside the call.
  static constexpr int64_t kMaxPayloadBytes = 8 << 10;

  explicit CallExchange(Mesh* mesh);

  // Sends `call` and `payload` to every peer and waits for theirs. Throws Disagreement when a
  // peer's call differs, PeerTrouble with all peers that didn't call in time.
  void Exchange(const Call& call, std::span<const std::byte> payload, Deadline deadline);
  // What `peer` sent along, until Finish.
  std::span<const std::byte> Payload(int peer) const;
  // Ends an operation: makes ready for the next one.
  void Finish(Deadline deadline);

 private:
  struct Message {
    Call call;
    int64_t payload_bytes = 0;
    std::byte payload[kMaxPayloadBytes];
  };

  // A peer can be one operation ahead, never two: it needs our call for that. With an inbox for
  // even and one for odd operations, what it sends always finds a receive that waits.
  struct Peer {
    Peer(Mesh* mesh, int rank, Message* outbox);

    const int rank;
    const std::unique_ptr<Message[]> inboxes;
    Channel receives[2];
    Channel sends;
  };

  static constexpr size_t kHeadBytes = offsetof(Message, payload);

  void AwaitCalls(Deadline deadline);
  void CompareCalls(const Call& call) const;
  const Message& MessageOf(const Peer& peer) const { return peer.inboxes[parity_]; }

  Mesh* const mesh_;
  const std::unique_ptr<Message> outbox_;  // the same for all
  std::vector<std::unique_ptr<Peer>> peers_;
  int parity_ = 0;
};

}  // namespace ddp::gloo_backend
