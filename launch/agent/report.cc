#include "launch/agent/report.h"

#include <fmt/format.h>
#include <limits.h>

#include <algorithm>
#include <charconv>

namespace launch {
namespace {

constexpr int kNobody = -1;
constexpr std::string_view kProgress = "progress ";

// Takes a number and the blank after it off the front of `text`.
template <class Number>
bool TakeNumber(std::string_view* text, Number* number) {
  const char* end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, *number);
  if (error != std::errc() || rest == end || *rest != ' ') return false;
  text->remove_prefix(rest - text->data() + 1);
  return true;
}

}  // namespace

std::string Encode(const RankReport& report) {
  std::string line = fmt::format("{} {} {}", report.time.time_since_epoch().count(),
                                 report.lost_peer.value_or(kNobody), OneLine(report.reason));
  if (line.size() >= PIPE_BUF) line.resize(PIPE_BUF - 1);
  return line + "\n";
}

std::optional<RankReport> Decode(std::string_view line) {
  TimePoint::rep time = 0;
  int lost_peer = kNobody;
  if (!TakeNumber(&line, &time) || !TakeNumber(&line, &lost_peer)) return std::nullopt;
  RankReport report;
  report.time = TimePoint(TimePoint::duration(time));
  if (lost_peer != kNobody) report.lost_peer = lost_peer;
  report.reason = OneLine(line);
  return report;
}

std::string EncodeProgress(int64_t step) { return fmt::format("{}{}\n", kProgress, step); }

std::optional<int64_t> DecodeProgress(std::string_view line) {
  if (!line.starts_with(kProgress)) return std::nullopt;
  line.remove_prefix(kProgress.size());
  int64_t step = 0;
  const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), step);
  if (error != std::errc() || rest != line.data() + line.size()) return std::nullopt;
  return step;
}

std::string OneLine(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return line;
}

}  // namespace launch
