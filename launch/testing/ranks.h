// The ranks that an agent under test has started.
#pragma once

#include <sys/types.h>

#include <vector>

namespace launch {

// Those that live, by local rank.
std::vector<pid_t> RanksOf(pid_t agent);

}  // namespace launch
