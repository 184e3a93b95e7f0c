// What one rank does for all, or each for itself, and may fail at.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "ddp/collectives/process_group.h"
#include "ddp/errors.h"

namespace ddp {

// "rank 0: can't save step 120: can't write run7/...: No space left on device".
class CheckpointError : public CollectiveError {
 public:
  CheckpointError(int rank, const std::string& what);
  // Where it went wrong.
  int rank() const { return rank_; }

 private:
  int rank_;
};

// Calls `work`, on every rank. Where it throws on some rank, a std::exception, all ranks throw
// CheckpointError, that of the lowest such rank. The group goes on being usable. Costs a small
// message.
void Together(ProcessGroup& group, absl::FunctionRef<void()> work);

}  // namespace ddp
