// StepTimes: the distribution of step durations, in bounded memory and a few nanoseconds a step.
//
// A histogram whose bins are 1/256 of an octave wide: the bits of a float, without the last ones,
// are the bin. So the median is right to 0.4 %.
#pragma once

#include <cstdint>
#include <vector>

namespace launch {

class StepTimes {
 public:
  StepTimes();

  void Add(double seconds);
  int64_t count() const { return count_; }
  double total_seconds() const { return total_seconds_; }
  // 0 when there are none.
  double Median() const;

 private:
  std::vector<int64_t> bins_;
  int64_t count_ = 0;
  double total_seconds_ = 0;
};

}  // namespace launch
