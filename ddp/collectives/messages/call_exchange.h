// CallExchange: how ranks agree before bytes meet. Each rank tells each of its peers in an
// operation what it is about to do and how much it sends and receives; small data travels along,
// and then is all that travels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ddp/collectives/messages/transport.h"
#include "ddp/collectives/operation.h"

namespace ddp {

// What a rank sends to a peer in an operation, and where it receives what the peer sends.
struct Transfer {
  int peer;
  std::span<const std::byte> sent = {};
  std::span<std::byte> received = {};
};

class CallExchange {
 public:
  // Data of at most `max_payload_bytes` travels with the call.
  CallExchange(Transport* transport, size_t max_payload_bytes)
      : transport_(transport), max_payload_bytes_(max_payload_bytes), lanes_(transport->size()) {}

  // Whether data of this size travels with the call.
  bool Carries(std::span<const std::byte> data) const { return data.size() <= max_payload_bytes_; }

  // Connects to the peers, if that hasn't happened.
  void Connect(std::span<const Transfer> transfers, Deadline deadline);
  // Sends `call` and what can travel along to every peer and waits for theirs, which do the same.
  // Throws Disagreement when a peer's call differs, PeerTrouble with all peers that didn't call in
  // time.
  void Exchange(const Call& call, std::span<const Transfer> transfers, Deadline deadline);
  // Ends an operation: makes ready for the next one.
  void Finish(std::span<const Transfer> transfers, Deadline deadline);

 private:
  // The start of a message; the payload follows.
  struct Head {
    Call call;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
  };

  // A peer can be one exchange ahead, never two: it needs our call for that. With an inbox for even
  // and one for odd exchanges, what it sends always finds a receive that waits.
  struct Lane {
    Lane(Transport* transport, int peer, size_t message_bytes, Deadline deadline);
    std::byte* inbox() const { return inboxes[parity].get(); }

    std::unique_ptr<std::byte[]> inboxes[2];
    std::unique_ptr<std::byte[]> outbox;
    std::unique_ptr<Channel> receives[2];
    std::unique_ptr<Channel> sends;
    int parity = 0;
  };

  void Send(const Call& call, const Transfer& transfer);
  void AwaitCalls(const Call& call, std::span<const Transfer> transfers, Deadline deadline);
  // Compares the call that has come, and takes the payload.
  void Take(const Call& call, const Transfer& transfer) const;

  Transport* const transport_;
  const size_t max_payload_bytes_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // by rank
};

}  // namespace ddp
