#include "ddp/replicated/attendance.h"

#include <array>
#include <vector>

namespace ddp {

Attendance::Roll Attendance::Call(bool is_active, double weight) {
  std::array<double, 2> told = {is_active ? 1.0 : 0.0, weight};
  std::vector<double> all(told.size() * group_.size());
  group_
      .AllGather({told.data(), told.size(), ops::DType::kFloat64},
                 {all.data(), static_cast<int64_t>(all.size()), ops::DType::kFloat64})
      ->Wait();
  Roll roll;
  for (int rank = 0; rank < group_.size(); ++rank) {
    if (all[2 * rank] == 0) continue;
    if (roll.num_active++ == 0) roll.first_active = rank;
    roll.weight += all[2 * rank + 1];
  }
  if (roll.num_active > 0) last_at_work_ = roll.first_active;
  return roll;
}

}  // namespace ddp
