// Ranks of a benchmark as processes of the program itself, on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddp/store/meeting_point.h"

namespace ddp::bench {

// Where this process, a rank, meets the others; nothing for one that nobody started as a rank.
std::optional<MeetingPlace> OwnPlace();

// Runs this program, with `arguments`, as ranks that meet at a store in this process, through
// `mpirun` if asked to. Returns when all have ended: whether all went well. When one fails the
// others are ended.
bool RunRanks(const std::vector<std::string>& arguments, int num_ranks, bool through_mpirun);

}  // namespace ddp::bench
