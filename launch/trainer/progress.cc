#include "launch/trainer/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "launch/agent/file_descriptor.h"
#include "launch/agent/terminal.h"
#include "launch/text/text.h"

namespace launch {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);

double Percent(double share) { return std::round(100 * std::clamp(share, 0.0, 1.0)); }

int TerminalColumns() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

std::string FormatLine(const StepReport& report) {
  return fmt::format(
      "step {}/{}  epoch {}  loss {:.4f}  grad_norm {:.3g}  lr {:g}  {:.0f} {}/s  "
      "data {:.0f}%  comm {:.0f}%  mem {}  ETA {}",
      report.step, report.total_steps, report.epoch, report.loss, report.gradient_norm,
      report.learning_rate, report.rate, report.unit, Percent(report.data_share),
      Percent(report.communication_share), FormatBytes(report.memory_bytes),
      FormatSeconds(report.eta_seconds));
}

std::string FormatBar(const StepReport& report, int columns) {
  constexpr int kWidest = 40;
  const std::string facts =
      fmt::format(" {}/{}  loss {:.4f}  {:.0f} {}/s  ETA {}", report.step, report.total_steps,
                  report.loss, report.rate, report.unit, FormatSeconds(report.eta_seconds));
  // Two brackets, and one column left free so that the cursor doesn't wrap.
  const int width = std::min(kWidest, columns - static_cast<int>(facts.size()) - 3);
  if (width < 5) return facts.substr(1, std::max(0, columns - 1));
  const auto filled = width * report.step / std::max<int64_t>(1, report.total_steps);
  return fmt::format("[{:<{}}]{}", std::string(static_cast<size_t>(filled), '='), width, facts);
}

Progress::Progress() : is_terminal_(isatty(STDOUT_FILENO) == 1) {}

Progress::~Progress() {
  if (is_terminal_ && latest_) WriteAll(STDOUT_FILENO, kEraseLine);
}

void Progress::Report(const StepReport& report) {
  latest_ = report;
  reported_at_ = Clock::now();
  if (is_terminal_) {
    Redraw(report.step, reported_at_);
  } else {
    Print(FormatLine(report));
  }
}

void Progress::Print(const std::string& line) {
  WriteAll(STDOUT_FILENO, fmt::format("{}{}\n", LineStart(STDOUT_FILENO), line));
}

void Progress::Redraw(int64_t step, Clock::time_point now) {
  next_draw_ = now + kRedrawInterval;
  if (!latest_) return;
  StepReport report = *latest_;
  report.step = step;
  report.eta_seconds -= std::chrono::duration<double>(now - reported_at_).count();
  if (report.eta_seconds < 0) report.eta_seconds = 0;
  WriteAll(STDOUT_FILENO, fmt::format("{}{}", kEraseLine, FormatBar(report, TerminalColumns())));
}

}  // namespace launch
