// Checks of what callers hand to a group, the same for all backends. Each throws
// std::invalid_argument that names the operation, what came and what was expected.
#pragma once

#include <string>
#include <string_view>

#include "ddp/collectives/process_group.h"

namespace ddp {

// "float32[1024]", with the device where it isn't the CPU.
std::string Describe(const Buffer& buffer);

// The buffer has memory for its elements, and it is in the memory of CPUs.
void CheckCpuBuffer(std::string_view operation, const Buffer& buffer);

// `output` has the dtype and `size` times the elements of `input`.
void CheckAllGatherBuffers(const Buffer& input, const Buffer& output, int size);

void CheckRoot(std::string_view operation, int root, int size);

}  // namespace ddp
