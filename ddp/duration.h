// Time spans and deadlines of everything that waits for another rank.
#pragma once

#include <chrono>
#include <string>

namespace ddp {

using Duration = std::chrono::nanoseconds;
using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// Every wait has a deadline; this is it unless something else was asked for.
inline constexpr Duration kDefaultTimeout = std::chrono::minutes(10);

// How long another machine may be silent before it counts as lost.
inline constexpr Duration kDefaultHeartbeatTimeout = std::chrono::seconds(60);

// A negative timeout counts as zero, one beyond a year as a year: sums with it don't overflow.
Duration ClampTimeout(Duration timeout);

// `timeout`, clamped, from now.
Deadline DeadlineAfter(Duration timeout);

// What is left until `deadline`, at least zero.
Duration TimeLeft(Deadline deadline);

// The same in milliseconds, rounded up, as poll() and its kind want it.
int MillisecondsLeft(Deadline deadline);

// "0.3 s", "120 s".
std::string FormatSeconds(Duration duration);

}  // namespace ddp
