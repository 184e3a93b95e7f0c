// Who waits for whom, from the flight records of a job's ranks.
//
//   "Group world (shm, 4 ranks): ranks 0, 1, 3 wait in all_reduce #17 (float32[1024], sum) since
//    12.3 s; rank 2 has not issued it: its last operation, barrier #16, ended 12.4 s ago. Rank 2
//    holds the others up."
#pragma once

#include <string>
#include <vector>

#include "ddp/collectives/flight_record.h"

namespace ddp {

// A paragraph for each group, in the order of the records. Ranks are put side by side by sequence
// numbers; times of several hosts are compared only for saying how long ago something was. Throws
// std::invalid_argument when there are no records, two of one rank, or records that can't be of one
// job.
std::string DescribeDesync(const std::vector<FlightRecord>& records);

}  // namespace ddp
