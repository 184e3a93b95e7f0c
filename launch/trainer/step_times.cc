#include "launch/trainer/step_times.h"

#include <algorithm>
#include <bit>

namespace launch {
namespace {

// Durations outside are counted at the limits: from 1 ns to 12 days.
constexpr float kShortest = 0x1p-30f;
constexpr float kLongest = 0x1p20f;
constexpr int kDroppedBits = 23 - 8;  // of the mantissa

uint32_t RawBin(float seconds) { return std::bit_cast<uint32_t>(seconds) >> kDroppedBits; }

float BinStart(size_t bin) {
  return std::bit_cast<float>((static_cast<uint32_t>(bin) + RawBin(kShortest)) << kDroppedBits);
}

}  // namespace

StepTimes::StepTimes() : bins_(RawBin(kLongest) - RawBin(kShortest) + 1) {}

void StepTimes::Add(double seconds) {
  const float clamped = std::clamp(static_cast<float>(seconds), kShortest, kLongest);
  ++bins_[RawBin(clamped) - RawBin(kShortest)];
  ++count_;
  total_seconds_ += seconds;
}

double StepTimes::Median() const {
  if (count_ == 0) return 0;
  int64_t seen = 0;
  size_t bin = 0;
  while ((seen += bins_[bin]) * 2 < count_) ++bin;
  return (static_cast<double>(BinStart(bin)) + BinStart(bin + 1)) / 2;
}

}  // namespace launch
