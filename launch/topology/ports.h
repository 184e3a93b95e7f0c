// Ports at which the ranks of a Slurm step can meet, without a word between them.
#pragma once

#include <cstdint>
#include <vector>

namespace launch {

inline constexpr int kNumCandidatePorts = 8;

// Different ports from 1024 up, all below `first_ephemeral_port`: above it the kernel gives ports
// to connections, and one of those may have taken ours. The same for all ranks of a step; rank 0
// takes the first that is free. Jobs whose numbers are close, and the steps of one job, begin with
// different ports. Empty where there is no room.
std::vector<int> CandidatePorts(int64_t job_id, int64_t step_id, int first_ephemeral_port);

}  // namespace launch
