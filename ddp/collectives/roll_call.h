// A roll call: who of a group's ranks is there. Where messages travel by way of other ranks, one
// that hangs holds up all; who runs into a deadline first waits for a rank that waits itself, and
// can't know for whom. So it calls the roll through the group's store, and whoever is in an
// operation too answers: a rank in the middle of it by its watch, a stopped process not at all.
//
// A group's roll is called once: after that the group has failed. Each rank makes a constant number
// of store operations, the caller one for each rank.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ddp/duration.h"

namespace ddp {

class Store;

// How long a roll call may take after an operation's `timeout` has passed: a tenth of it, a second
// at most. Zero where that is too short for an answer; then no roll is called.
Duration RollCallTime(Duration timeout);

// Calls the roll for `rank`, which is there, or takes the verdict of who has called it already.
// Returns the ranks that haven't answered, within `limit`. Nothing when the caller was lost, when
// the store doesn't answer, or as soon as `has_failed`.
std::optional<std::vector<int>> CallRoll(Store& store, int rank, int size, Duration limit,
                                         const std::function<bool()>& has_failed);

// Waits until the roll is called, for at most `limit`. Returns whether it has been. Throws
// CollectiveError when the store is gone.
bool AwaitRollCall(Store& store, Duration limit);

void AnswerRollCall(Store& store, int rank);

}  // namespace ddp
