#include "ddp/replicated/attendance.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <vector>

namespace ddp {
namespace {

const char* Describe(Attendance::Intent intent) {
  return intent == Attendance::Intent::kBuffers ? "a forward pass" : "a backward pass";
}

}  // namespace

Attendance::Roll Attendance::Call(Intent mine, double weight) {
  std::array<double, 2> told = {static_cast<double>(mine), weight};
  std::vector<double> all(told.size() * group_.size());
  group_
      .AllGather({told.data(), told.size(), ops::DType::kFloat64},
                 {all.data(), static_cast<int64_t>(all.size()), ops::DType::kFloat64})
      ->Wait();
  Roll roll;
  for (int rank = 0; rank < group_.size(); ++rank) {
    const auto intent = static_cast<Intent>(all[2 * rank]);
    if (intent == Intent::kNothing) continue;
    if (roll.num_active++ == 0) {
      roll.intent = intent;
      roll.first_active = rank;
    } else if (intent != roll.intent) {
      throw std::logic_error(fmt::format("Join: rank {} begins {}, rank {} {}", roll.first_active,
                                         Describe(roll.intent), rank, Describe(intent)));
    }
    roll.weight += all[2 * rank + 1];
  }
  if (roll.num_active > 0) last_at_work_ = roll.first_active;
  return roll;
}

}  // namespace ddp
