// What a rank tells its agent, in lines, through a pipe that it inherits (kReportFdVariable).
//
// RankReport: why it fails. Exit codes can't say more than a number, and they arrive in the wrong
// order: a rank that merely lost its peer often ends before the one that brought it about.
//
//   progress 1200    a restart would go on from step 1200, the last checkpoint's
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace launch {

// The variable with the number of the pipe's descriptor.
inline constexpr char kReportFdVariable[] = "DDP_REPORT_FD";

// The exit code that says: all is saved, start me again in a new job. Neither done nor a failure.
inline constexpr int kRequeueExitCode = 75;

// The monotonic clock is the same for all processes of a machine.
using TimePoint = std::chrono::steady_clock::time_point;

struct RankReport {
  // When the rank failed.
  TimePoint time;
  // The rank that it lost, where losing a peer is why it failed: a consequence, not a cause.
  std::optional<int> lost_peer;
  // Why, in one line.
  std::string reason;
};

// A report as it travels: one line, short enough for a pipe to take it in one piece.
std::string Encode(const RankReport& report);
// Nothing for text that Encode can't have made.
std::optional<RankReport> Decode(std::string_view line);

// "progress 1200\n", and back; nothing for any other line.
std::string EncodeProgress(int64_t step);
std::optional<int64_t> DecodeProgress(std::string_view line);

// `text` without line breaks, for messages that have to stay one line.
std::string OneLine(std::string_view text);

}  // namespace launch
