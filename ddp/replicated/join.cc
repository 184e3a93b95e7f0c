#include "ddp/replicated/join.h"

#include <exception>
#include <stdexcept>

#include "absl/cleanup/cleanup.h"
#include "ddp/errors.h"
#include "ddp/replicated/attendance.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ddp/replicated/model_agreement.h"
#include "ddp/replicated/reducer.h"

namespace ddp {
namespace {

// Whether gradients are averages. What the others are told, that their gradients can't be averaged,
// is theirs to act upon: they go on, or leave and abort the group.
bool Follow(Reducer& reducer, const Attendance::Roll& roll) {
  try {
    reducer.Follow(roll);
    return true;
  } catch (const std::logic_error&) {
    return false;
  } catch (const NonFiniteGradientError&) {
    return false;
  }
}

}  // namespace

void Join(DistributedDataParallel& replicated, const std::function<void()>& body,
          const JoinOptions& options) {
  Reducer* const reducer = replicated.reducer_.get();
  if (reducer == nullptr) return body();  // a world of one
  ProcessGroup& group = replicated.group_;
  Attendance attendance(group);
  const absl::Cleanup leave = [reducer] { reducer->set_attendance(nullptr, false); };
  reducer->set_attendance(&attendance, options.divide_by_active);
  try {
    body();
  } catch (const std::exception& error) {
    group.Abort(error.what());
    throw;
  }
  for (;;) {
    const Attendance::Roll roll = attendance.Call(/*is_active=*/false);
    if (roll.num_active == 0) break;
    if (Follow(*reducer, roll) && options.after_backward) options.after_backward();
  }
  if (!options.after_backward) {
    BroadcastFrom(group, attendance.last_at_work(), replicated.StateDict());
  }
}

}  // namespace ddp
