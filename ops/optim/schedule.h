// How the learning rate changes over training: a function from the step to a factor of the rate
// that the optimizer was made with.
//
//   const optim::ScheduleOptions schedule = {
//       .schedule = optim::Schedule::kCosine, .total_steps = 1000, .warmup_steps = 50};
//   for (int64_t step = 0; step < 1000; ++step) {
//     ...
//     optimizer.ScaleLearningRates(optim::LearningRateFactor(schedule, step));
//     optimizer.Step();
//   }
//
// There is no state, so that a training that goes on from a checkpoint needs to know its step only.
// The values are those of PyTorch's schedulers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ops::optim {

enum class Schedule {
  kConstant,
  kLinear,    // from 1 to final_factor (LinearLR)
  kCosine,    // the same along half a cosine (CosineAnnealingLR; Loshchilov and Hutter 2017)
  kStep,      // times gamma at every step_size-th step (StepLR)
  kOneCycle,  // up from 1 / div_factor to 1, and down far below (OneCycleLR; Smith and Topin 2017)
};

struct ScheduleOptions {
  Schedule schedule = Schedule::kConstant;
  // Steps of the whole training, warm-up included. For linear, cosine and one-cycle, which stay
  // where they ended after it.
  int64_t total_steps = 0;
  // In the first steps, 0 .. warmup_steps - 1, the factor grows linearly from 1 / warmup_steps to
  // 1, times the factor that the schedule begins with. The schedule's first step comes after them.
  int64_t warmup_steps = 0;

  double final_factor = 0;  // linear, cosine
  int64_t step_size = 1;    // step
  double gamma = 0.1;       // step
  // One-cycle: which part of the steps the rate rises in, and what it begins and ends with:
  // 1 / div_factor, 1 / (div_factor * final_div_factor).
  double rising_part = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
};

// Of the step that comes after `step` others. Throws std::invalid_argument, with name and value,
// for options that make no sense, and for a negative step.
double LearningRateFactor(const ScheduleOptions& options, int64_t step);

// "constant", "cosine", "linear", "one-cycle", "step": sorted.
std::span<const std::string_view> ScheduleNames();
// The one of that name. Throws std::invalid_argument that lists the names for another.
Schedule ParseSchedule(std::string_view name);

}  // namespace ops::optim
