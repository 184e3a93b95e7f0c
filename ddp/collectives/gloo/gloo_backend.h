// The Gloo backend: CPU tensors over TCP, between any hosts.
//
//   gloo_backend   from a meeting to a backend
//   mesh           messages with deadlines, over Gloo's point-to-point operations
//   connector      connections, as they are needed; pair makes them Gloo's
//   address        under which of its addresses peers reach a rank
//   loop           what Gloo's event loop needs
//
// The operations are those of messages/. Gloo's own collectives aren't used: they end the process
// when sizes differ, sum in an order that depends on the rank, and can't be interrupted.
#pragma once

#include <memory>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/meeting.h"

namespace ddp {

// Tells the peers where this rank is to be found, or that it can't be. Throws
// std::invalid_argument where there is no address that peers could reach.
std::unique_ptr<Backend> MakeGlooBackend(const Meeting& meeting);

}  // namespace ddp
