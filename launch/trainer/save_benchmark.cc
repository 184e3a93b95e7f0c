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

constexpr int kSaves = 12;
constexpr int kSteps = 4;  // that take longer than writing

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

// The time of kSteps steps.
double SecondsOfSteps(Learner& learner) {
  return SecondsOf([&] {
    for (int i = 0; i < kSteps; ++i) learner.Step();
  });
}

// Steps without a save and steps after one take turns, as the machine may have other work.
void Measure(Learner& learner, RunCheckpoints& checkpoints) {
  std::vector<double> saves, quiet, lost;
  for (int i = 0; i < kSaves; ++i) {
    quiet.push_back(SecondsOfSteps(learner));
    saves.push_back(SecondsOf([&] { checkpoints.Save(learner); }));
    lost.push_back(SecondsOfSteps(learner) - quiet.back());
    checkpoints.Finish();
  }
  const double quiet_step = Median(quiet) / kSteps;
  const auto part = [&](double seconds) {
    return fmt::format("{:.2f} ms, {:.1f} % of a step", 1e3 * seconds, 100 * seconds / quiet_step);
  };
  fmt::print("a step:              {:.1f} ms\n", 1e3 * quiet_step);
  fmt::print("the first save:      {}\n", part(saves[0]));
  fmt::print("the others:          {} (median)\n", part(Median({saves.begin() + 1, saves.end()})));
  fmt::print("lost in {} steps:     {} (median)\n", kSteps, part(Median(lost)));
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
  learner.Step();
  checkpoints.Prepare(learner);
  for (int i = 0; i < 4; ++i) learner.Step();
  fmt::print("gpt, {} parameters, {} thread(s)\n", learner.num_parameters(), num_threads);
  Measure(learner, checkpoints);
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
