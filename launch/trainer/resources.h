// What the kernel knows about this process.
#pragma once

#include <cstdint>

namespace launch {

// Memory in use, and the most that ever was.
int64_t ResidentBytes();
int64_t PeakResidentBytes();

// Since the launcher of this job started (the agent's process where one started this rank, or else
// this one), to 10 ms.
double SecondsSinceLaunch();

}  // namespace launch
