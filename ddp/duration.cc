#include "ddp/duration.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace ddp {

Duration ClampTimeout(Duration timeout) {
  return std::clamp<Duration>(timeout, Duration::zero(), std::chrono::hours(24 * 365));
}

Deadline DeadlineAfter(Duration timeout) { return Clock::now() + ClampTimeout(timeout); }

Duration TimeLeft(Deadline deadline) {
  return std::max<Duration>(deadline - Clock::now(), Duration::zero());
}

int MillisecondsLeft(Deadline deadline) {
  const int64_t left = std::chrono::ceil<std::chrono::milliseconds>(TimeLeft(deadline)).count();
  return static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
}

std::string FormatSeconds(Duration duration) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(duration).count());
}

}  // namespace ddp
