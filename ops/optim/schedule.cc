#include "ops/optim/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace ops::optim {
namespace {

constexpr std::string_view kNames[] = {"constant", "cosine", "linear", "one-cycle", "step"};
constexpr Schedule kByName[] = {Schedule::kConstant, Schedule::kCosine, Schedule::kLinear,
                                Schedule::kOneCycle, Schedule::kStep};

template <class T>
void Require(bool holds, std::string_view option, T value, std::string_view expected) {
  if (holds) return;
  throw std::invalid_argument(
      fmt::format("a schedule's {} is {}, expected {}", option, value, expected));
}

bool HasAnEnd(Schedule schedule) {
  return schedule == Schedule::kLinear || schedule == Schedule::kCosine ||
         schedule == Schedule::kOneCycle;
}

void RequireSense(const ScheduleOptions& options, int64_t step) {
  Require(step >= 0, "step", step, "at least 0");
  Require(options.warmup_steps >= 0, "warmup_steps", options.warmup_steps, "at least 0");
  if (HasAnEnd(options.schedule)) {
    Require(options.total_steps > options.warmup_steps, "total_steps", options.total_steps,
            fmt::format("more than its {} warm-up steps", options.warmup_steps));
  }
  Require(options.final_factor >= 0 && std::isfinite(options.final_factor), "final_factor",
          options.final_factor, "a finite number of at least 0");
  Require(options.step_size >= 1, "step_size", options.step_size, "at least 1");
  Require(options.gamma >= 0 && std::isfinite(options.gamma), "gamma", options.gamma,
          "a finite number of at least 0");
  Require(options.rising_part >= 0 && options.rising_part <= 1, "rising_part", options.rising_part,
          "from 0 to 1");
  Require(options.div_factor > 0, "div_factor", options.div_factor, "more than 0");
  Require(options.final_div_factor > 0, "final_div_factor", options.final_div_factor,
          "more than 0");
}

// From `from`, at 0, to `to`, at 1, along half a cosine.
double CosineBetween(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

// The last step of the rise is step rising_part * steps - 1, which needn't be whole.
double OneCycle(const ScheduleOptions& options, double step, double steps) {
  const double first = 1 / options.div_factor;
  const double last = first / options.final_div_factor;
  const double peak = options.rising_part * steps - 1;
  if (step <= peak) return CosineBetween(first, 1, peak > 0 ? step / peak : 1);
  return CosineBetween(1, last, std::min(1.0, (step - peak) / (steps - 1 - peak)));
}

// Without the warm-up, which is over at step 0.
double Factor(const ScheduleOptions& options, int64_t step) {
  const auto steps = static_cast<double>(options.total_steps - options.warmup_steps);
  const double part = HasAnEnd(options.schedule) ? std::min(1.0, step / steps) : 0;
  switch (options.schedule) {
    case Schedule::kConstant:
      return 1;
    case Schedule::kLinear:
      return 1 + (options.final_factor - 1) * part;
    case Schedule::kCosine:
      return CosineBetween(1, options.final_factor, part);
    case Schedule::kStep:
      return std::pow(options.gamma, step / options.step_size);
    case Schedule::kOneCycle:
      return OneCycle(options, static_cast<double>(step), steps);
  }
  throw std::invalid_argument("not a schedule");
}

}  // namespace

double LearningRateFactor(const ScheduleOptions& options, int64_t step) {
  RequireSense(options, step);
  if (step >= options.warmup_steps) return Factor(options, step - options.warmup_steps);
  const double warmup = static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
  return warmup * Factor(options, 0);
}

std::span<const std::string_view> ScheduleNames() { return kNames; }

Schedule ParseSchedule(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found != std::end(kNames)) return kByName[found - kNames];
  throw std::invalid_argument(
      fmt::format("unknown schedule '{}', expected one of {}", name, fmt::join(kNames, ", ")));
}

}  // namespace ops::optim
