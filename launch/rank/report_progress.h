// ReportProgress: tells the agent how far this rank's program has come, so that the agent stops
// starting ranks again that come no further (agent/restart_policy.h).
#pragma once

#include <cstdint>

namespace launch {

// A restart would go on from `step`: that of the last checkpoint that is complete. Nothing happens
// where no agent started this process. Never throws; waits only while the agent is stopped.
void ReportProgress(int64_t step);

}  // namespace launch
