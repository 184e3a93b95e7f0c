// Checks of what callers hand to a group, the same for all backends. Each throws
// std::invalid_argument that names the operation, what came and what was expected.
#pragma once

#include <string>

#include "ddp/collectives/operation.h"

namespace ddp {

// "float32[1024]", with the device where it isn't the CPU.
std::string Describe(const Buffer& buffer);

// Everything that this rank alone can know to be wrong with an operation: memory, devices, dtypes,
// sizes of blocks, roots, reductions.
void CheckArguments(const Operation& operation, int rank, int size);

}  // namespace ddp
