// Times this project's operators, and what the machine could do at best: a JSON line for each.
// operators.py runs it beside PyTorch.
//
//   operators_timer [--only=PART_OF_NAME] [--seconds=0.3] [--threads=1]
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "ops/autograd/grad.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/thread_pool.h"
#include "ops/tensor/random.h"
#include "tests/benchmarks/limit_kernels.h"
#include "tests/benchmarks/operator_cases.h"

ABSL_FLAG(std::string, only, "", "part of the names to be timed");
ABSL_FLAG(double, seconds, 0.3, "for each operator, about");
ABSL_FLAG(int, threads, 1, "threads");

namespace benchmarks {
namespace {

using ops::Tensor;
using Seconds = std::chrono::duration<double>;

template <class F>
double TimeOf(F f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// How often to run what takes `once` seconds.
int64_t Repeats(double once) {
  return std::clamp<int64_t>(static_cast<int64_t>(absl::GetFlag(FLAGS_seconds) / once), 7, 2000);
}

// What one thread of this machine can do at best, times the threads.
class Limits {
 public:
  explicit Limits(int threads) : threads_(threads) {
    float sink = 0;
    constexpr int64_t kRounds = 1 << 20;
    for (int i = 0; i < 10; ++i) {
      double operations = 0;
      const double seconds = TimeOf([&] { operations = kernels_.multiply_add(kRounds, &sink); });
      operations_per_second_ = std::max(operations_per_second_, operations / seconds);
    }
  }

  double operations_per_second() const { return threads_ * operations_per_second_; }

  // Of reading and writing as many bytes as an operator does, so in the cache that they fit.
  double BytesPerSecond(double num_bytes) const {
    const auto half = std::max<int64_t>(64, static_cast<int64_t>(num_bytes / 2) / 64 * 64);
    const Tensor x = Tensor::Zeros({half}, {.dtype = ops::DType::kUInt8});
    double best = 0;
    for (int i = 0; i < 10; ++i) {
      const int64_t rounds = std::max<int64_t>(1, (1 << 20) / half);
      const double seconds = TimeOf([&] {
        for (int64_t j = 0; j < rounds; ++j) kernels_.update(x.raw_data(), half);
      });
      best = std::max(best, 2.0 * static_cast<double>(half * rounds) / seconds);
    }
    return threads_ * best;
  }

  double SecondsOf(const Work& work) const {
    return std::max(work.operations / operations_per_second(),
                    work.num_bytes / BytesPerSecond(work.num_bytes));
  }

 private:
  const LimitKernels& kernels_ =
      ops::cpu::ForIsa(baseline::kLimitKernels, avx2::kLimitKernels, avx512::kLimitKernels);
  const int threads_;
  double operations_per_second_ = 0;
};

void Print(const std::string& name, double forward, double backward, double limit) {
  fmt::print("{{\"name\": \"{}\", \"forward\": {}, \"backward\": {}, \"limit\": {}}}\n", name,
             forward, backward, limit);
}

void Run(const OperatorCase& operator_case, const Limits& limits) {
  const auto forward = operator_case.make();
  ops::Generator generator(1);
  const Tensor gradient = Tensor::Randn(forward().shape(), generator);
  const auto once = [&] {
    Tensor y;
    const double there = TimeOf([&] { y = forward(); });
    return std::pair(there, TimeOf([&] { ops::Backward(y, gradient); }));
  };
  once();
  const auto [there, back] = once();
  std::vector<double> forwards, backwards;
  for (int64_t i = 0; i < Repeats(there + back); ++i) {
    const auto [f, b] = once();
    forwards.push_back(f);
    backwards.push_back(b);
  }
  Print(operator_case.name, Median(forwards), Median(backwards),
        limits.SecondsOf(operator_case.forward) + limits.SecondsOf(operator_case.backward));
}

void Run(const StepCase& step_case, const Limits& limits) {
  const auto step = step_case.make();
  step();
  std::vector<double> times;
  const int64_t repeats = Repeats(TimeOf(step));
  for (int64_t i = 0; i < repeats; ++i) times.push_back(TimeOf(step));
  Print(step_case.name, Median(times), 0, limits.SecondsOf(step_case.work));
}

template <class Cases>
void RunAll(const Cases& cases, const Limits& limits) {
  const std::string only = absl::GetFlag(FLAGS_only);
  for (const auto& one : cases) {
    if (one.name.find(only) != std::string::npos) Run(one, limits);
  }
}

void Main() {
  ops::cpu::ThreadPool pool(absl::GetFlag(FLAGS_threads));
  const ops::cpu::ScopedThreadPool use(&pool);
  const Limits limits(pool.num_threads());
  RunAll(OperatorCases(), limits);
  RunAll(StepCases(), limits);
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  benchmarks::Main();
}
