// How a run's progress looks: a line per interval, or, on a terminal, a bar that is drawn over.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace launch {

// What is known after a step; shares are of the interval's time, from 0 to 1.
struct StepReport {
  int64_t step = 0;
  int64_t total_steps = 0;
  int64_t epoch = 0;  // from 1
  double loss = 0;    // mean over the interval and the ranks
  double gradient_norm = 0;
  double learning_rate = 0;
  double rate = 0;  // units a second, of all ranks
  std::string_view unit = "samples";
  double data_share = 0;           // waiting for data
  double communication_share = 0;  // waiting for other ranks
  int64_t memory_bytes = 0;
  double eta_seconds = 0;
};

// "step 120/1876  epoch 1  loss 0.3121  grad_norm 1.24  lr 0.1  11234 samples/s  data 1%  comm 12%
// mem 61 MB  ETA 5s", in one line.
std::string FormatLine(const StepReport& report);
// "[====      ] 120/1876  loss 0.3121  11234 samples/s  ETA 5s", fewer than `columns` characters.
std::string FormatBar(const StepReport& report, int columns);

// Prints to standard output. One rank of a job has one; the others have none.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  Progress();
  ~Progress();

  // What an interval has brought.
  void Report(const StepReport& report);
  // A step has ended. Cheap: the bar moves some times a second, lines don't.
  void Tick(int64_t step, Clock::time_point now) {
    if (is_terminal_ && now >= next_draw_) Redraw(step, now);
  }
  // A line between the others.
  void Print(const std::string& line);

 private:
  void Redraw(int64_t step, Clock::time_point now);

  const bool is_terminal_;
  Clock::time_point next_draw_;
  Clock::time_point reported_at_;
  std::optional<StepReport> latest_;
};

}  // namespace launch
