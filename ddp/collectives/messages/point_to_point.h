// Sends and receives between pairs of ranks, all at the same time.
#pragma once

#include <span>

#include "ddp/collectives/messages/transport.h"
#include "ddp/collectives/operation.h"

namespace ddp {

// Returns when all `operations`, of kSend and kReceive, are done. Between two ranks they meet in
// order. Throws Disagreement when one meets another size or dtype, on the rank that receives.
void ExchangeMessages(Transport* transport, std::span<const Operation> operations,
                      Deadline deadline);

}  // namespace ddp
