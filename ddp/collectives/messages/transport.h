// Transport: messages between the ranks of a group, which can be waited for with a deadline and
// notice when a peer is gone. What gloo/ and mpi/ each supply; the operations over it
// (message_backend.h) are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "ddp/collectives/trouble.h"
#include "ddp/duration.h"

namespace ddp {

// Messages of one slot between two ranks arrive in the order in which they were sent. A message is
// never larger than the receive it meets.
enum class Slot : uint32_t { kCallEven, kCallOdd, kScatter, kGather, kOffer, kPeerToPeer };

// A way to send from and receive into some memory, to and from one peer. One thread at a time uses
// the channels of a transport.
class Channel {
 public:
  virtual ~Channel() = default;
  int peer() const { return peer_; }

  // Bytes [offset, offset + num_bytes) of the channel's memory. Both return at once. Throw
  // PeerTrouble when the peer is lost.
  virtual void Send(Slot slot, size_t offset, size_t num_bytes) = 0;
  virtual void Receive(Slot slot, size_t offset, size_t num_bytes) = 0;

  // Wait for the earliest receive, or send, that wasn't waited for yet. Return false when one of
  // the peers `needed` is lost first. Throw PeerTrouble when the channel's peer is lost or the
  // deadline passes, Stopped after Transport::Stop.
  virtual bool AwaitReceiveUnlessLost(std::span<const int> needed, Deadline deadline) = 0;
  virtual void AwaitReceive(Deadline deadline) = 0;
  // Wait for all of them.
  virtual void AwaitReceives(Deadline deadline) = 0;
  virtual void AwaitSends(Deadline deadline) = 0;

 protected:
  explicit Channel(int peer) : peer_(peer) {}

 private:
  const int peer_;
};

class Transport {
 public:
  virtual ~Transport() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }

  // The memory must outlive the channel, the channel must not outlive the transport. Connects the
  // two ranks if they aren't yet: the peer, whatever it is doing, need do nothing for it. Throws
  // PeerTrouble, Stopped.
  virtual std::unique_ptr<Channel> Open(int peer, void* data, size_t num_bytes,
                                        Deadline deadline) = 0;
  // Receives one message of at most `num_bytes` from whichever of `peers` sends one first, and
  // returns who did. Channels to them are open; none of them receives on `slot`.
  virtual int ReceiveFromAny(std::span<const int> peers, Slot slot, void* data, size_t num_bytes,
                             Deadline deadline) = 0;
  // The one of `peers` that is lost, if any; what it sent before may still be there.
  virtual std::optional<int> FindLost(std::span<const int> peers) = 0;

  // Ends the present wait and all later ones with Stopped. Safe from any thread.
  virtual void Stop() = 0;
  // Closes all connections, which peers notice at once.
  virtual void Close() = 0;

 protected:
  Transport(int rank, int size) : rank_(rank), size_(size) {}

 private:
  const int rank_;
  const int size_;
};

}  // namespace ddp
