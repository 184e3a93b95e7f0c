// Which GPU a rank takes, of those that it sees.
#pragma once

#include <optional>

#include "ddp/environment.h"

namespace launch {

// How many CUDA_VISIBLE_DEVICES lists; nothing where it is not set, which means all.
std::optional<int> CountVisibleGpus(const ddp::Environment& environment);

// The ordinal among the visible ones. A launcher that shows each rank one GPU has made the choice
// already, whatever its number on the machine. Throws std::invalid_argument where there are fewer
// than ranks.
int ChooseGpu(int local_rank, int local_world_size, int num_visible);

}  // namespace launch
