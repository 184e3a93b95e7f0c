// How long a checkpoint of the gpt, saved in the background, holds up the training: the call that
// copies, and what steps lose to the thread that writes.
//
//   bazel run //launch/trainer:save_benchmark -- FOLDER [THREADS]
//
// The folder is where checkpoints would lie: the disk matters.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "launch/models/data.h"
#include "launch/trainer/learner.h"
#include "launch/trainer/run_checkpoints.h"
#include "ops/cpu/thread_pool.h"

namespace launch {
namespace {

constexpr int kSaves = 8;
constexpr int kStepsBetween = 6;  // more than it takes to write

double SecondsOf(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

TrainOptions Options(const std::string& folder) {
  TrainOptions options;
  options.model = "gpt";
  options.data = {"synthetic", ""};
  options.optimizer = "adamw";
  options.learning_rate = 3e-4;
  options.batch_size = 4;
  options.checkpoint_dir = folder;
  options.epochs = 0;
  options.max_steps = 1'000'000;
  return options;
}

// Medians, in seconds, of what follows a save: the call, then the steps.
void Report(Learner& learner, RunCheckpoints& checkpoints, double quiet_step) {
  std::vector<double> saves, lost;
  for (int i = 0; i < kSaves; ++i) {
    saves.push_back(SecondsOf([&] { checkpoints.Save(learner); }));
    double steps = 0;
    for (int j = 0; j < kStepsBetween; ++j) steps += SecondsOf([&] { learner.Step(); });
    lost.push_back(steps - kStepsBetween * quiet_step);
    checkpoints.Finish();
  }
  const auto part = [&](double seconds) {
    return fmt::format("{:.2f} ms, {:.1f} % of a step", 1e3 * seconds, 100 * seconds / quiet_step);
  };
  fmt::print("a step:              {:.1f} ms\n", 1e3 * quiet_step);
  fmt::print("the first save:      {}\n", part(saves[0]));
  fmt::print("the others:          {} (median)\n", part(Median({saves.begin() + 1, saves.end()})));
  fmt::print("lost in {} steps:     {} (median)\n", kStepsBetween, part(Median(lost)));
}

void Run(const std::string& folder, int num_threads) {
  ops::cpu::ThreadPool threads(num_threads);
  const ops::cpu::ScopedThreadPool use(&threads);
  const auto group = ddp::InitProcessGroup({});
  const TrainOptions options = Options(folder);
  const Datasets data =
      OpenData(options.data, Task::kLanguage,
               {.seed = 0, .context = options.gpt.context, .vocab = options.gpt.vocab});
  RunCheckpoints checkpoints(options, data.train->size(), *group);
  Learner learner(options, *data.train, *group);
  std::vector<double> steps;
  for (int i = 0; i < 5; ++i) learner.Step();
  for (int i = 0; i < 40; ++i) steps.push_back(SecondsOf([&] { learner.Step(); }));
  fmt::print("gpt, {} parameters, {} thread(s)\n", learner.num_parameters(), num_threads);
  Report(learner, checkpoints, Median(steps));
}

}  // namespace
}  // namespace launch

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: save_benchmark FOLDER [THREADS]\n");
    return 2;
  }
  launch::Run(argv[1], argc > 2 ? std::atoi(argv[2]) : 1);
}
