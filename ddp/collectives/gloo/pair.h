// AdoptedPair: Gloo's end of a connection that we have made.
//
// Gloo's own way to connect takes whoever comes to its listener for the peer, needs two listeners
// for each pair of ranks, can't be interrupted, and ends the process when a connection breaks at
// the wrong moment. So does nonsense on a connection; here it only breaks the connection.
#pragma once

#include "ddp/file_descriptor.h"
#include "gloo/transport/tcp/context.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/tcp/pair.h"

namespace ddp {

// Is made and closed on the device's loop.
class AdoptedPair : public gloo::transport::tcp::Pair {
 public:
  // `connection` to `peer` is open, and all bytes on it are Gloo's. Throws what Gloo throws when
  // it has broken.
  AdoptedPair(gloo::transport::tcp::Context* context, gloo::transport::tcp::Device* device,
              int peer, FileDescriptor connection);

  // Whether bytes are left that the peer's machine doesn't have yet. For any thread.
  bool HasUnsent();
  // What the peer's machine has still arrives, as after close() it need not.
  void CloseGently();

  void handleEvents(int events) override;

 private:
  bool IsClosed();
};

}  // namespace ddp
