#include "launch/trainer/trainer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "ddp/atomic_file.h"
#include "ddp/checkpoint/safetensors.h"
#include "ddp/collectives/process_group.h"
#include "ddp/data/data_loader.h"
#include "ddp/errors.h"
#include "launch/agent/report.h"
#include "launch/models/data.h"
#include "launch/models/gpt.h"
#include "launch/models/sampling.h"
#include "launch/rank/rank.h"
#include "launch/text/text.h"
#include "launch/trainer/agreement.h"
#include "launch/trainer/evaluation.h"
#include "launch/trainer/learner.h"
#include "launch/trainer/progress.h"
#include "launch/trainer/rank_signals.h"
#include "launch/trainer/resources.h"
#include "launch/trainer/run_checkpoints.h"
#include "launch/trainer/step_times.h"
#include "ops/cpu/thread_pool.h"

namespace launch {
namespace {

using Clock = std::chrono::steady_clock;

// Running totals of this rank; the difference of two is what an interval brought.
struct Totals {
  int64_t steps = 0;
  int64_t samples = 0;
  double loss = 0;  // times the steps' weights
  double loss_weight = 0;
  double seconds = 0;  // in steps
  double data_seconds = 0;
  double communication_seconds = 0;

  Totals operator-(const Totals& earlier) const {
    return {steps - earlier.steps,
            samples - earlier.samples,
            loss - earlier.loss,
            loss_weight - earlier.loss_weight,
            seconds - earlier.seconds,
            data_seconds - earlier.data_seconds,
            communication_seconds - earlier.communication_seconds};
  }
};

// What a reader of the weights needs to make the model again.
ddp::SafetensorsMetadata MetadataOf(const TrainOptions& options) {
  ddp::SafetensorsMetadata metadata = {{"model", options.model}, {"data", options.data.name}};
  if (options.model != "gpt") return metadata;
  metadata["layers"] = std::to_string(options.gpt.layers);
  metadata["width"] = std::to_string(options.gpt.width);
  metadata["heads"] = std::to_string(options.gpt.heads);
  metadata["context"] = std::to_string(options.gpt.context);
  metadata["vocab"] = std::to_string(options.gpt.vocab);
  return metadata;
}

// In the store: rank 0 has saved what the ranks had when one of them gave up.
constexpr const char* kSavedAlone = "train/saved_alone";
// How a rank that gives up waiting for data tells the others why, when it was asked to stop.
constexpr std::string_view kStoppedForData = "asked to stop while it waited for data";

class TrainingRun {
 public:
  TrainingRun(const TrainOptions& options, ddp::ProcessGroup& group, ddp::Store& store,
              RankSignals& signals)
      : options_(options),
        group_(group),
        store_(store),
        signals_(signals),
        task_(FindModel(options.model).task),
        data_(OpenData(options.data, task_,
                       {.seed = static_cast<uint64_t>(options.seed),
                        .context = options.gpt.context,
                        .vocab = options.gpt.vocab})),
        checkpoints_(options, data_.train->size(), group),
        checkpoint_(checkpoints_.Load()),
        learner_(options, *data_.train, group, checkpoint_ ? &*checkpoint_ : nullptr),
        first_step_(learner_.steps() + 1) {
    if (group.rank() == 0) progress_.emplace();
    if (!checkpoint_ && !options.init_from.empty()) {
      learner_.LoadWeights(InitialWeights(options, group));
    }
    checkpoint_.reset();
    signals_.OnStop([this](const std::string& why) { AskToStop(why); });
  }
  // What comes now comes too late: the run is done, or has failed.
  ~TrainingRun() {
    signals_.OnStop([](const std::string&) {});
  }

  Summary Run() {
    Print([&] { return Plan(); });
    for (const std::string& note : checkpoints_.notes()) Print([&] { return note; });
    const int64_t total_steps = learner_.total_steps();
    step_start_ = Clock::now();
    for (int64_t step = first_step_; step <= total_steps; ++step) {
      const bool reports =
          step % options_.log_every == 0 || step == first_step_ || step == total_steps;
      const double loss = Step(/*with_gradient_norm=*/reports);
      Count(step, loss);
      if (reports) Report(step, loss);
      if (step == first_step_) checkpoints_.Prepare(learner_);
      if (checkpoints_.IsDue(learner_) || learner_.stop_is_agreed()) {
        checkpoints_.Save(learner_);
        step_start_ = Clock::now();
      }
      if (learner_.stop_is_agreed()) End();
      if (options_.eval_every > 0 && step % options_.eval_every == 0 && step < total_steps) {
        RunEvaluation(step);
      }
    }
    const Evaluation evaluation = RunEvaluation(total_steps);
    checkpoints_.Finish();
    ExchangeLosses();
    Summarize(evaluation);
    Print([&] { return FormatSummary(summary_); });
    if (group_.rank() == 0) {
      WriteFiles();
      PrintSample();
    }
    return summary_;
  }

 private:
  template <class Text>
  void Print(Text text) {
    if (progress_) progress_->Print(text());
  }

  // On the thread of signals.
  void AskToStop(const std::string& why) {
    fmt::print(stderr, "rank {}: asked to stop by {}\n", group_.rank(), why);
    is_asked_to_stop_ = true;
    learner_.AskToStop();
  }

  double Step(bool with_gradient_norm) {
    try {
      return learner_.Step(with_gradient_norm);
    } catch (const ddp::DataStalledError& stalled) {
      group_.Abort(fmt::format("{}: {}", kStoppedForData, stalled.what()));
      EndAlone();
    } catch (const ddp::CollectiveError& error) {
      const bool is_told =
          std::string_view(error.what()).find(kStoppedForData) != std::string::npos;
      if (is_told || is_asked_to_stop_) EndAlone();
      throw;
    }
  }

  // All ranks have agreed to stop, and saved.
  [[noreturn]] void End() {
    checkpoints_.Finish();
    const std::string message = fmt::format("stopped after step {}/{}; another run can go on",
                                            learner_.steps(), learner_.total_steps());
    Print([&] { return message; });
    throw StoppedEarly(message);
  }

  // To stop where the ranks can't agree any more. All have completed the same steps: nobody can
  // complete one that another hasn't begun. Ends the process here, as a thread may wait for data
  // that never comes.
  [[noreturn]] void EndAlone() {
    const int exit_code = group_.rank() == 0 ? SaveAlone() : AwaitRankZero();
    std::fflush(nullptr);
    _exit(exit_code);
  }

  int SaveAlone() {
    try {
      checkpoints_.SaveAlone(learner_);
      Print([&] {
        return fmt::format("stopped after step {}/{}, in the midst of one; another run can go on",
                           learner_.steps(), learner_.total_steps());
      });
      store_.Set(kSavedAlone, "");
      return kRequeueExitCode;
    } catch (const std::exception& error) {
      fmt::print(stderr, "rank 0: stopped, but the last steps are lost: {}\n", error.what());
      return 1;
    }
  }

  // Schedulers end all ranks when the first has ended.
  int AwaitRankZero() {
    try {
      store_.Wait({kSavedAlone}, options_.timeout);
    } catch (const std::exception&) {
      // Rank 0 is gone, and the store with it: it has saved, or has said why it can't.
    }
    return kRequeueExitCode;
  }

  std::string Plan() const {
    return fmt::format(
        "{} ({} parameters) learns from {} ({} examples): {}, {}, {} examples per rank and "
        "batch, {} steps of {}",
        options_.model, learner_.num_parameters(), options_.data.name, data_.train->size(),
        FormatCount(group_.size(), "rank"), group_.backend(), options_.batch_size,
        learner_.total_steps(), options_.optimizer);
  }

  // Every step passes here: one clock read of its own, no text, no traffic.
  void Count(int64_t step, double loss) {
    const Clock::time_point now = Clock::now();
    step_times_.Add(std::chrono::duration<double>(now - step_start_).count());
    step_start_ = now;
    const double weight = learner_.loss_weight();
    loss_sum_ += weight * loss;
    loss_weight_ += weight;
    if (!options_.losses.empty()) {
      losses_.push_back(static_cast<float>(weight * loss));
      weights_.push_back(static_cast<float>(weight));
    }
    if (progress_) progress_->Tick(step, now);
  }

  Totals TotalsNow() const {
    return {step_times_.count(),
            learner_.samples(),
            loss_sum_,
            loss_weight_,
            step_times_.total_seconds(),
            learner_.data_seconds(),
            learner_.communication_seconds()};
  }

  // Tells about the interval that ends here, with losses from all ranks. Not part of a step's time.
  void Report(int64_t step, double loss) {
    if (step == first_step_) summary_.time_to_first_loss_seconds = SecondsSinceLaunch();
    const Totals totals = TotalsNow();
    const Totals interval = totals - reported_;
    reported_ = totals;
    const double weight = learner_.loss_weight();
    std::array<double, 4> sums = {interval.loss, interval.loss_weight, weight * loss, weight};
    group_
        .AllReduce({.data = sums.data(), .num_elements = 4, .dtype = ops::DType::kFloat64},
                   ddp::ReduceOp::kSum)
        ->Wait();
    const double mean_loss = sums[0] / sums[1], last_loss = sums[2] / sums[3];
    if (step == first_step_) summary_.loss_first = last_loss;
    summary_.loss_last = last_loss;
    if (progress_) progress_->Report(Describe(step, mean_loss, interval));
    step_start_ = Clock::now();
  }

  StepReport Describe(int64_t step, double loss, const Totals& interval) const {
    // The first step, which touches all memory first, tells nothing about those to come.
    const double seconds_per_step = step == first_step_
                                        ? std::numeric_limits<double>::quiet_NaN()
                                        : interval.seconds / static_cast<double>(interval.steps);
    return {.step = step,
            .total_steps = learner_.total_steps(),
            .epoch = learner_.epoch(),
            .loss = loss,
            .gradient_norm = learner_.gradient_norm(),
            .learning_rate = learner_.learning_rate(),
            .rate = SamplesPerSecond(interval) * static_cast<double>(UnitsPerSample()),
            .unit = task_ == Task::kLanguage ? "tokens" : "samples",
            .data_share = interval.data_seconds / interval.seconds,
            .communication_share = interval.communication_seconds / interval.seconds,
            .memory_bytes = ResidentBytes(),
            .eta_seconds = static_cast<double>(learner_.total_steps() - step) * seconds_per_step};
  }

  double SamplesPerSecond(const Totals& totals) const {
    if (totals.steps == 0) return 0;
    return static_cast<double>(totals.samples * group_.size()) / totals.seconds;
  }

  int64_t UnitsPerSample() const { return task_ == Task::kLanguage ? options_.gpt.context : 1; }

  Evaluation RunEvaluation(int64_t step) {
    learner_.AverageRanks();
    const std::optional<Evaluation> evaluation =
        Evaluate(learner_.model(), task_, *data_.test, options_.batch_size, group_,
                 PrecisionOf(options_), [this] { return is_asked_to_stop_.load(); });
    if (!evaluation) {
      if (!checkpoints_.IsDue(learner_)) checkpoints_.Save(learner_);
      End();
    }
    Print([&] {
      return fmt::format("step {}/{}  {}", step, learner_.total_steps(),
                         launch::Describe(*evaluation, "  "));
    });
    step_start_ = Clock::now();
    return *evaluation;
  }

  // Replaces the losses of this rank's steps by the means over the ranks, where they are wanted.
  void ExchangeLosses() {
    if (losses_.empty()) return;
    for (std::vector<float>* const sums : {&losses_, &weights_}) {
      group_
          .AllReduce({.data = sums->data(), .num_elements = static_cast<int64_t>(sums->size())},
                     ddp::ReduceOp::kSum)
          ->Wait();
    }
    for (size_t i = 0; i < losses_.size(); ++i) losses_[i] /= weights_[i];
  }

  void Summarize(const Evaluation& evaluation) {
    const Totals totals = TotalsNow();
    summary_.model = options_.model;
    summary_.parameters = learner_.num_parameters();
    summary_.data = options_.data.name;
    summary_.world_size = group_.size();
    summary_.backend = group_.backend();
    summary_.optimizer = options_.optimizer;
    summary_.batch_size = options_.batch_size;
    summary_.steps = totals.steps;
    summary_.resumed_at_step = first_step_ - 1;
    summary_.skipped_steps = learner_.skipped_steps();
    summary_.eval_loss = evaluation.loss;
    summary_.eval_accuracy = evaluation.accuracy;
    summary_.eval_perplexity = evaluation.perplexity;
    summary_.samples_per_second = SamplesPerSecond(totals);
    if (task_ == Task::kLanguage) {
      summary_.tokens_per_second =
          summary_.samples_per_second * static_cast<double>(UnitsPerSample());
    }
    summary_.step_seconds_median = step_times_.Median();
    summary_.train_seconds = totals.seconds;
    summary_.save_seconds = checkpoints_.seconds();
    if (totals.steps > 0) {
      summary_.data_share = totals.data_seconds / totals.seconds;
      summary_.communication_share = totals.communication_seconds / totals.seconds;
    }
    for (const std::string& bytes : group_.ExchangeBlobs(std::to_string(PeakResidentBytes()))) {
      summary_.peak_rss_bytes.push_back(std::stoll(bytes));
    }
    summary_.total_seconds = SecondsSinceLaunch();
  }

  // The weights first: they are what the run was for.
  void WriteFiles() const {
    if (!options_.save.empty()) {
      ddp::WriteSafetensors(options_.save, learner_.StateDict(), MetadataOf(options_));
    }
    if (!options_.summary_json.empty()) {
      ddp::WriteFileAtomically(options_.summary_json, SummaryJson(summary_));
    }
    if (!options_.losses.empty()) {
      ddp::WriteFileAtomically(options_.losses, LossesText(losses_));
    }
  }

  // What a language model of bytes has learnt, for people to see; one that diverged knows nothing.
  void PrintSample() {
    auto* const gpt = dynamic_cast<Gpt*>(&learner_.model());
    if (gpt == nullptr || options_.data.name != "text") return;
    if (!std::isfinite(summary_.eval_loss)) return;
    const SampleOptions sample = {.seed = static_cast<uint64_t>(options_.seed)};
    progress_->Print("sample:" + TextOf(Sample(*gpt, {'\n'}, sample)));
  }

  const TrainOptions& options_;
  ddp::ProcessGroup& group_;
  ddp::Store& store_;
  RankSignals& signals_;
  std::atomic<bool> is_asked_to_stop_ = false;
  const Task task_;
  const Datasets data_;
  RunCheckpoints checkpoints_;
  std::optional<ddp::Checkpoint> checkpoint_;  // which the learner goes on from, until it has
  Learner learner_;
  const int64_t first_step_;
  std::optional<Progress> progress_;  // rank 0 alone

  Clock::time_point step_start_;
  StepTimes step_times_;
  double loss_sum_ = 0;  // of this rank's losses times their weights
  double loss_weight_ = 0;
  Totals reported_;            // at the last report
  std::vector<float> losses_;  // by step, times weights_, where they are wanted
  std::vector<float> weights_;
  Summary summary_;
};

void WriteFlightRecord(const ddp::ProcessGroup& group, const std::string& directory) {
  try {
    const std::string path = group.WriteFlightRecord(directory.empty() ? "." : directory);
    fmt::print(stderr, "rank {}: flight record in {}\n", group.rank(), path);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: no flight record: {}\n", group.rank(), error.what());
  }
}

}  // namespace

Summary Train(const TrainOptions& options, int rank, int world_size,
              const std::shared_ptr<ddp::Store>& store, RankSignals& signals) {
  if (!options.flight_record_dir.empty() &&
      !std::filesystem::is_directory(options.flight_record_dir)) {
    throw std::invalid_argument(
        fmt::format("--flight_record_dir={}: there is no such folder", options.flight_record_dir));
  }
  ops::cpu::ThreadPool threads(static_cast<int>(options.threads));
  const ops::cpu::ScopedThreadPool use_threads(&threads);
  const auto group = ddp::InitProcessGroup({.backend = options.backend,
                                            .rank = rank,
                                            .world_size = world_size,
                                            .store = store,
                                            .timeout = options.timeout,
                                            .heartbeat_timeout = options.heartbeat_timeout,
                                            .device = options.device,
                                            .interface = options.interface,
                                            .flight_record_dir = options.flight_record_dir});
  signals.OnFlightRecord([&] { WriteFlightRecord(*group, options.flight_record_dir); });
  const absl::Cleanup deaf = [&] { signals.OnFlightRecord(nullptr); };
  try {
    CheckAllRanksAgree(*group, options);
    if (rank == 0) {
      ddp::CheckWritable(options.save);
      ddp::CheckWritable(options.summary_json);
      ddp::CheckWritable(options.losses);
    }
    return TrainingRun(options, *group, *store, signals).Run();
  } catch (const StoppedEarly&) {
    throw;
  } catch (const std::exception& e) {
    group->Abort(e.what());  // the peers needn't wait to learn it
    throw;
  }
}

}  // namespace launch
