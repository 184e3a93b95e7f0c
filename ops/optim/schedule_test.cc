#include "ops/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

namespace ops::optim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// The expected numbers are those of PyTorch 1.13's schedulers, with a learning rate of 1.
void ExpectFactors(const ScheduleOptions& options, const std::vector<double>& expected) {
  for (size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(LearningRateFactor(options, static_cast<int64_t>(step)), expected[step], 1e-14)
        << "step " << step;
  }
}

TEST(ScheduleTest, Constant) {
  ExpectFactors({}, {1, 1, 1});
  ExpectFactors({.warmup_steps = 4}, {0.25, 0.5, 0.75, 1, 1, 1});
}

TEST(ScheduleTest, LinearStaysAtItsEnd) {
  ExpectFactors({.schedule = Schedule::kLinear, .total_steps = 6, .final_factor = 0.1},
                {1, 0.85, 0.7, 0.55, 0.4, 0.25, 0.1, 0.1});
}

TEST(ScheduleTest, CosineStaysAtItsEnd) {
  ExpectFactors({.schedule = Schedule::kCosine, .total_steps = 6, .final_factor = 0.1},
                {1, 0.93971143170299742, 0.775, 0.55, 0.325, 0.16028856829700261, 0.1, 0.1, 0.1});
}

TEST(ScheduleTest, WarmUpComesBeforeTheSchedule) {
  ExpectFactors(
      {.schedule = Schedule::kCosine, .total_steps = 10, .warmup_steps = 4},
      {0.25, 0.5, 0.75, 1, 1, 0.93301270189221941, 0.75, 0.5, 0.25, 0.066987298107780646});
}

TEST(ScheduleTest, StepsOfGamma) {
  ExpectFactors({.schedule = Schedule::kStep, .step_size = 3, .gamma = 0.5},
                {1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125});
}

TEST(ScheduleTest, OneCycle) {
  ExpectFactors({.schedule = Schedule::kOneCycle, .total_steps = 12},
                {0.04, 0.34978965421958308, 0.87928515912212868, 0.99441543545091171,
                 0.93301296984141169, 0.81174565394976295, 0.64737899769510332, 0.46263710266697505,
                 0.28306099820869923, 0.1334775301888306, 0.034566987425395219, 4e-06, 4e-06});
  ExpectFactors({.schedule = Schedule::kOneCycle,
                 .total_steps = 7,
                 .rising_part = 0.5,
                 .div_factor = 10,
                 .final_div_factor = 100},
                {0.1, 0.41094235253127365, 0.91405764746872631, 0.95053394951725834,
                 0.61164920651117904, 0.18906684397156262, 0.001});
}

TEST(ScheduleTest, TheShortestCyclesAreNumbers) {
  for (const int64_t total : {1, 2, 3, 4}) {
    for (const double rising : {0.0, 0.25, 0.5, 1.0}) {
      for (int64_t step = 0; step < 6; ++step) {
        const double factor = LearningRateFactor(
            {.schedule = Schedule::kOneCycle, .total_steps = total, .rising_part = rising}, step);
        EXPECT_TRUE(factor > 0 && factor <= 1) << total << " " << rising << " " << step;
      }
    }
  }
}

TEST(ScheduleTest, RefusesWhatMakesNoSense) {
  const auto refused = [](const ScheduleOptions& options, const char* name, const char* value) {
    EXPECT_THAT([&] { LearningRateFactor(options, 0); },
                ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(name), HasSubstr(value))));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused({.warmup_steps = -1}, "warmup_steps", "-1");
  refused({.schedule = Schedule::kLinear}, "total_steps is 0", "more than its 0 warm-up steps");
  refused({.schedule = Schedule::kCosine, .total_steps = 5, .warmup_steps = 5}, "total_steps", "5");
  refused({.final_factor = nan}, "final_factor", "nan");
  refused({.step_size = 0}, "step_size", "0");
  refused({.gamma = -0.5}, "gamma", "-0.5");
  refused({.rising_part = 1.5}, "rising_part", "1.5");
  refused({.div_factor = 0}, "div_factor", "0");
  refused({.final_div_factor = nan}, "final_div_factor", "nan");
  EXPECT_THAT([] { LearningRateFactor({}, -3); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("-3")));
}

TEST(ScheduleTest, NamesAreFound) {
  EXPECT_EQ(ParseSchedule("constant"), Schedule::kConstant);
  EXPECT_EQ(ParseSchedule("linear"), Schedule::kLinear);
  EXPECT_EQ(ParseSchedule("cosine"), Schedule::kCosine);
  EXPECT_EQ(ParseSchedule("step"), Schedule::kStep);
  EXPECT_EQ(ParseSchedule("one-cycle"), Schedule::kOneCycle);
  EXPECT_EQ(ScheduleNames().size(), 5u);
  EXPECT_THAT([] { ParseSchedule("cosin"); },
              ThrowsMessage<std::invalid_argument>(AllOf(
                  HasSubstr("'cosin'"), HasSubstr("constant, cosine, linear, one-cycle, step"))));
}

}  // namespace
}  // namespace ops::optim
