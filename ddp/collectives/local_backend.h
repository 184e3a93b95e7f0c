// LocalBackend: a world of one rank. What it gives itself it copies; there is no thread, no socket
// and no store.
#pragma once

#include <memory>

#include "ddp/collectives/backend.h"

namespace ddp {

std::unique_ptr<Backend> MakeLocalBackend();

}  // namespace ddp
