// Connector: how two ranks come to a TCP connection as soon as one of them wants it.
//
// Each rank listens on one port and says in the store where. Whoever wants to talk to a peer calls
// it, and says who it is; the peer's event loop answers at once, whatever the peer is doing. When
// two call each other at the same time, the call of the higher rank counts. A caller that doesn't
// know what the store says is no peer: its connection is closed, and nothing else happens.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/gloo/loop.h"
#include "ddp/collectives/meeting.h"
#include "ddp/duration.h"
#include "ddp/file_descriptor.h"
#include "gloo/transport/tcp/device.h"

namespace ddp {

class Connector {
 public:
  // Whether this rank takes the call of `peer`; then the connection follows.
  using Admit = std::function<bool(int peer)>;
  using Connected = std::function<void(int peer, FileDescriptor connection)>;

  // Listens on `address`. Both functions are called on the device's loop, and don't throw.
  Connector(const Meeting& meeting, const std::string& address,
            gloo::transport::tcp::Device* device, LoopTasks* loop, Admit admit,
            Connected connected);
  ~Connector();

  // In place of a Connector: peers that want to call this rank learn why they can't.
  static void TellUnreachable(const Meeting& meeting, const std::string& reason) noexcept;

  // Calls `peer`. Returns the connection, or one that isn't open where the peer doesn't take the
  // call because it is calling this rank. Throws PeerTrouble, Stopped when `interrupt` becomes
  // readable, and CollectiveError where the store holds no address of the peer's.
  FileDescriptor Call(int peer, int interrupt, Deadline deadline);

  // Nobody gets an answer any more. Not for the device's loop.
  void StopListening();

 private:
  using Secret = std::array<uint8_t, 16>;

  // What a caller says first.
  struct Hello {
    uint64_t magic = 0x64647063616c6c31;  // changes with the format
    Secret secret = {};                   // that of the rank it calls
    int32_t rank = 0;
    int32_t unused = 0;
  };

  // What the store says about a rank.
  struct Entry {
    std::string host;
    int port = 0;
    Secret secret = {};
  };

  // A connection that has yet to say who it is.
  struct Caller {
    FileDescriptor connection;
    std::unique_ptr<LoopCallback> callback;
  };

  static std::string Encode(const Entry& entry);
  static Entry Decode(const std::string& key, const std::string& value);
  Entry LookUp(int peer, int interrupt, Deadline deadline);

  // These run on the device's loop.
  void AcceptAll();
  void Hear(Caller* caller);
  bool IsPeer(const Hello& hello) const;
  // Takes the caller's connection off the loop.
  FileDescriptor Release(Caller* caller);

  const std::shared_ptr<Store> store_;
  const int rank_;
  const int size_;
  gloo::transport::tcp::Device* const device_;
  LoopTasks* const loop_;
  const Admit admit_;
  const Connected connected_;
  Secret secret_;

  LoopCallback accept_all_;

  // Of the device's loop.
  FileDescriptor listener_;
  std::deque<std::unique_ptr<Caller>> callers_;
  std::vector<std::unique_ptr<Caller>> released_;  // the loop may have an event for them left
};

}  // namespace ddp
