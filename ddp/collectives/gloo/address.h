// Under which of its addresses peers can reach a rank.
#pragma once

#include <string>
#include <vector>

#include "ddp/collectives/meeting.h"

namespace ddp {

// The address of meeting.options.interface, where one is given; else on a single host the loopback
// interface's, else the one that leads to the store or to a peer. Throws std::invalid_argument for
// an unknown interface, and where there is only a loopback address for peers on other hosts.
std::string ChooseAddress(const Meeting& meeting);

}  // namespace ddp
