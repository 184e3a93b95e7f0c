#include "launch/trainer/step_times.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

TEST(StepTimes, Empty) { EXPECT_EQ(StepTimes().Median(), 0); }

TEST(StepTimes, MedianIsNear) {
  for (const double scale : {2e-9, 1e-6, 0.0123, 4.5, 900.0}) {
    StepTimes times;
    for (const double factor : {1.0, 3.0, 2.0, 100.0, 0.5}) times.Add(scale * factor);
    EXPECT_NEAR(times.Median(), 2 * scale, 0.004 * 2 * scale);
    EXPECT_EQ(times.count(), 5);
    EXPECT_DOUBLE_EQ(times.total_seconds(), scale * 106.5);
  }
}

TEST(StepTimes, OddDurationsAreClamped) {
  StepTimes times;
  times.Add(0);
  EXPECT_NEAR(times.Median(), 1e-9, 1e-10);
  times.Add(1e30);
  times.Add(1e30);
  EXPECT_GT(times.Median(), 1e6);
}

}  // namespace
}  // namespace launch
