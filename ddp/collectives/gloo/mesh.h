// Mesh: connections to all peers, and messages over them that can be waited for with a deadline and
// that notice when a peer is gone.
//
// Gloo moves the bytes. What it leaves open is closed here: a message that was half received when
// its connection broke is never reported, a timeout closes all connections, and nothing says whose
// connection broke. So a thread watches the connections and interrupts who waits for a lost peer.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/collectives/gloo/rendezvous.h"
#include "ddp/duration.h"
#include "gloo/transport/unbound_buffer.h"

namespace ddp::gloo_backend {

// Messages of one slot between two ranks arrive in the order in which they were sent. A message
// must not be larger than the receive it meets: Gloo ends the process.
enum Slot : uint64_t { kCallEven, kCallOdd, kScatter, kGather, kWatch };

// What a wait ends with when it doesn't end well; turned into one of ddp/errors.h by the group.
class PeerTrouble : public std::exception {
 public:
  enum Kind { kLost, kTimedOut };

  PeerTrouble(Kind kind, std::vector<int> ranks) : kind_(kind), ranks_(std::move(ranks)) {}
  Kind kind() const { return kind_; }
  const std::vector<int>& ranks() const { return ranks_; }
  const char* what() const noexcept override { return "trouble with a peer"; }

 private:
  Kind kind_;
  std::vector<int> ranks_;
};

// Mesh::Stop was called.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

class Channel;

class Mesh {
 public:
  Mesh(Connections connections, int rank, int size);
  ~Mesh();

  int rank() const { return rank_; }
  int size() const { return size_; }

  // A way to send from and receive into `num_bytes` at `data`, to and from `peer`. The memory must
  // outlive the channel, the channel must not outlive the mesh.
  Channel Open(int peer, void* data, size_t num_bytes);

  // The one of `peers` that is lost, if any; what it sent before may still be there.
  std::optional<int> FindLost(std::span<const int> peers);

  // Ends the present wait and all later ones with Stopped. Safe from any thread.
  void Stop();
  // Closes all connections, which peers notice at once.
  void Close();

 private:
  friend class Channel;

  // A wait for one message, or for its having left.
  struct Pending {
    gloo::transport::UnboundBuffer* buffer = nullptr;
    int peer = -1;
    bool is_send = false;
    std::span<const int> needed = {};  // the loss of one of these ends the wait too
  };

  // Returns false when one of `needed` was lost before it was done.
  bool Await(const Pending& pending, Deadline deadline);
  void BeginWait(const Pending& pending);
  void EndWait();
  bool IsLost(int peer);
  // After an operation of Gloo's threw: throws what that means.
  [[noreturn]] void ThrowLost(int peer);

  // Interrupts the present wait, if it is for a lost peer or the mesh was stopped. mutex_ is held.
  void InterruptIfHopeless();
  void Watch();
  // Posts receives that never complete on the connections that are left; those that can't take one
  // are lost. Returns false when it is time to end.
  bool PostSentinel(gloo::transport::UnboundBuffer* sentinel, uint64_t round);

  const int rank_;
  const int size_;
  Connections connections_;

  std::mutex mutex_;
  // Guarded by mutex_.
  Pending waiting_;
  std::vector<bool> lost_;
  bool stopped_ = false;
  bool ending_ = false;
  gloo::transport::UnboundBuffer* sentinel_ = nullptr;

  std::thread watcher_;
};

// One thread at a time uses the channels of a mesh.
class Channel {
 public:
  // Bytes [offset, offset + num_bytes) of the channel's memory. Both return at once.
  void Send(Slot slot, size_t offset, size_t num_bytes);
  void Receive(Slot slot, size_t offset, size_t num_bytes);

  // Waits for the earliest receive that wasn't waited for yet.
  void AwaitReceive(Deadline deadline);
  // The same, but returns false when one of the peers `needed` is lost first.
  bool AwaitReceiveUnlessLost(std::span<const int> needed, Deadline deadline);
  // Wait for all of them.
  void AwaitReceives(Deadline deadline);
  void AwaitSends(Deadline deadline);

  int peer() const { return peer_; }

 private:
  friend class Mesh;
  Channel(Mesh* mesh, int peer, std::unique_ptr<gloo::transport::UnboundBuffer> buffer)
      : mesh_(mesh), peer_(peer), buffer_(std::move(buffer)) {}

  Mesh* mesh_;
  int peer_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  int pending_sends_ = 0;
  int pending_receives_ = 0;
};

}  // namespace ddp::gloo_backend
