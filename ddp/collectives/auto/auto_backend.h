// The auto backend: the fastest way between the ranks that came. Shared memory where all are on one
// host; Gloo where each has a host of its own; else both (hierarchical_backend.h).
#pragma once

#include <memory>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/meeting.h"

namespace ddp {

std::unique_ptr<Backend> MakeAutoBackend(const Meeting& meeting);

}  // namespace ddp
