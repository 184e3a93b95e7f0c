// Mesh: messages over Gloo's TCP connections, which come about as they are needed.
//
// Gloo moves the bytes. What it leaves open is closed here: a message that was half received when
// its connection broke is never reported, a timeout closes all connections, and nothing says whose
// connection broke. So a thread watches the connections and interrupts who waits for a lost peer,
// and a timer who waits too long.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ddp/collectives/gloo/connector.h"
#include "ddp/collectives/gloo/loop.h"
#include "ddp/collectives/gloo/pair.h"
#include "ddp/collectives/meeting.h"
#include "ddp/collectives/messages/transport.h"
#include "ddp/file_descriptor.h"
#include "gloo/transport/tcp/context.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace ddp {

class Mesh : public Transport {
 public:
  // Peers reach this rank at `address`.
  Mesh(const Meeting& meeting, const std::string& address);
  ~Mesh() override;

  std::unique_ptr<Channel> Open(int peer, void* data, size_t num_bytes, Deadline deadline) override;
  int ReceiveFromAny(std::span<const int> peers, Slot slot, void* data, size_t num_bytes,
                     Deadline deadline) override;
  std::optional<int> FindLost(std::span<const int> peers) override;
  void Stop() override;
  void Close() override;

 private:
  friend class MeshChannel;

  enum class Link {
    kNone,
    kCalling,    // this rank calls the peer
    kAnswering,  // the peer has called
    kOpen,
    kLost,
  };

  // A wait for a message, or for its having left.
  struct Pending {
    gloo::transport::UnboundBuffer* buffer = nullptr;
    bool is_send = false;
    std::span<const int> peers = {};   // one of them sends or receives it
    std::span<const int> needed = {};  // the loss of one of these ends the wait too
    int* from = nullptr;               // who has sent it
    Deadline deadline = {};
  };

  void Connect(int peer, Deadline deadline);
  void Call(int peer, Deadline deadline);
  // Until there is a connection; for a while only, as the call that was to come may have failed.
  void AwaitLink(int peer, Deadline deadline);

  // These run on the device's loop.
  bool Admit(int peer);
  void Adopt(int peer, FileDescriptor connection);

  // For who knows that there is none to come.
  std::vector<AdoptedPair*> Pairs() const;
  // A connection that closes while the peer sends something, as a watcher may at any time, drops
  // what hasn't left.
  void AwaitSent() const;

  // Returns false when one of `needed` was lost before it was done.
  bool Await(const Pending& pending);
  void BeginWait(const Pending& pending);
  void EndWait();
  // After an operation of Gloo's threw: throws what that means.
  [[noreturn]] void ThrowLost(int peer);

  void Watch();
  // On the device's loop, at a deadline.
  void EndLateWait();

  // These need mutex_.
  // Posts a receive that never completes, but fails when the connection breaks.
  void PostSentinelTo(int peer);
  bool IsAnyLost(std::span<const int> peers) const;
  // Interrupts the present wait, if it is for a lost peer or the mesh was stopped.
  void InterruptIfHopeless();
  void Interrupt();

  // They must end the other way round.
  LoopTasks loop_;
  LoopTimer timer_;
  const Duration heartbeat_timeout_;
  const std::shared_ptr<gloo::transport::tcp::Device> device_;
  const std::shared_ptr<gloo::transport::tcp::Context> context_;
  bool closed_ = false;  // of the device's loop

  const FileDescriptor stop_event_;  // readable after Stop
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_, which nobody may hold who waits for the device's loop.
  std::vector<Link> links_;  // by rank
  Pending waiting_;
  Deadline alarm_ = Deadline::max();  // the timer's; the deadlines of later waits may be later
  bool stopped_ = false;
  bool ending_ = false;
  std::unique_ptr<gloo::transport::UnboundBuffer> sentinel_;
  uint64_t watch_slot_;  // the sentinel's

  std::optional<Connector> connector_;
  std::thread watcher_;
};

}  // namespace ddp
