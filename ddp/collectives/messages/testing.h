// Messages between threads of one process, for tests of what is above a Transport.
#pragma once

#include <memory>

#include "ddp/collectives/messages/transport.h"

namespace ddp {

// Where the ranks of one group meet. A send is done when it has met its receive; a message that is
// larger than its receive ends the process, as it does with Gloo.
class MessageHub;

std::shared_ptr<MessageHub> MakeMessageHub(int size);
std::unique_ptr<Transport> MakeHubTransport(std::shared_ptr<MessageHub> hub, int rank);

}  // namespace ddp
