#include "launch/trainer/progress.h"

#include <gtest/gtest.h>

namespace launch {
namespace {

StepReport Example() {
  return {.step = 120,
          .total_steps = 1876,
          .epoch = 1,
          .loss = 0.31214,
          .gradient_norm = 1.2367,
          .learning_rate = 0.1,
          .rate = 11233.7,
          .data_share = 0.008,
          .communication_share = 0.123,
          .memory_bytes = 61'200'000,
          .eta_seconds = 5.2};
}

TEST(Progress, Line) {
  EXPECT_EQ(FormatLine(Example()),
            "step 120/1876  epoch 1  loss 0.3121  grad_norm 1.24  lr 0.1  11234 samples/s  "
            "data 1%  comm 12%  mem 61 MB  ETA 5s");
}

TEST(Progress, BarFitsTheTerminal) {
  StepReport report = Example();
  report.step = 938;
  EXPECT_EQ(FormatBar(report, 70),
            "[==========          ] 938/1876  loss 0.3121  11234 samples/s  ETA 5s");
  for (int columns = 1; columns < 200; ++columns) {
    EXPECT_LT(FormatBar(report, columns).size(), static_cast<size_t>(columns));
  }
}

TEST(Progress, BarIsFullAtTheEnd) {
  StepReport report = Example();
  report.step = report.total_steps;
  EXPECT_EQ(FormatBar(report, 200).find(' '), FormatBar(report, 200).find(']') + 1);
}

}  // namespace
}  // namespace launch
