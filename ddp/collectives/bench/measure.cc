#include "ddp/collectives/bench/measure.h"

#include <time.h>

#include <algorithm>
#include <vector>

#include "ddp/collectives/bench/trial.h"
#include "ddp/duration.h"

namespace ddp::bench {
namespace {

constexpr int kWarmups = 3;
constexpr int kTrials = 2;  // from which the number of runs is guessed
constexpr int64_t kMinRuns = 5, kMaxRuns = 3000;

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// User and system time of this process.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class T>
T Sum(ProcessGroup& group, T value) {
  group.AllReduce({&value, 1, ops::kDTypeOf<T>}, ReduceOp::kSum)->Wait();
  return value;
}

// How often to run what takes as long as `trial` has just taken; rank 0's answer on all ranks.
int64_t NumRuns(ProcessGroup& group, Trial& trial, double seconds) {
  const auto start = Clock::now();
  for (int i = 0; i < kTrials; ++i) trial.Run();
  const double once = Seconds(Clock::now() - start) / kTrials;
  int64_t num_runs = std::clamp(static_cast<int64_t>(seconds / once), kMinRuns, kMaxRuns);
  group.Broadcast({&num_runs, 1, ops::DType::kInt64}, 0)->Wait();
  return num_runs;
}

Result MeasureOne(ProcessGroup& group, const Plan& plan, OperationKind operation,
                  int64_t num_bytes) {
  Trial trial(group, plan, operation, num_bytes);
  trial.Fill();
  trial.Run();
  int64_t num_wrong = trial.CountWrong();

  trial.FillWithZeros();
  for (int i = 0; i < kWarmups; ++i) trial.Run();
  std::vector<double> times(NumRuns(group, trial, plan.seconds));
  group.Barrier()->Wait();
  const double cpu_before = CpuSeconds();
  for (double& time : times) {
    const auto start = Clock::now();
    trial.Run();
    time = Seconds(Clock::now() - start);
  }
  const double cpu_seconds = CpuSeconds() - cpu_before;

  group.Barrier()->Wait();
  trial.Fill();
  trial.Run();
  num_wrong += trial.CountWrong();

  std::ranges::sort(times);
  const auto num_runs = static_cast<int64_t>(times.size());
  return {.operation = operation,
          .num_bytes = trial.num_elements() * ops::SizeOf(plan.dtype),
          .num_elements = trial.num_elements(),
          .num_runs = num_runs,
          .median_seconds = times[num_runs / 2],
          .min_seconds = times[0],
          .p90_seconds = times[num_runs * 9 / 10],
          .cpu_seconds = Sum(group, cpu_seconds) / static_cast<double>(num_runs),
          .num_wrong = Sum(group, num_wrong)};
}

}  // namespace

double Result::bus_bandwidth(int num_ranks) const {
  const double others = static_cast<double>(num_ranks - 1) / num_ranks;
  switch (operation) {
    case OperationKind::kBroadcast:
      return algorithm_bandwidth();
    case OperationKind::kAllReduce:
      return algorithm_bandwidth() * 2 * others;
    default:
      return algorithm_bandwidth() * others;
  }
}

void Measure(ProcessGroup& group, const Plan& plan,
             const std::function<void(const Result&)>& report) {
  for (const OperationKind operation : plan.operations) {
    for (const int64_t num_bytes : plan.sizes) {
      report(MeasureOne(group, plan, operation, num_bytes));
    }
  }
}

}  // namespace ddp::bench
