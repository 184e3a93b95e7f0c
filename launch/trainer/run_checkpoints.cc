#include "launch/trainer/run_checkpoints.h"

#include <fmt/format.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "ddp/checkpoint/broadcast.h"
#include "ddp/checkpoint/together.h"
#include "ddp/replicated/communication_hooks.h"
#include "launch/models/models.h"
#include "launch/models/weights.h"
#include "launch/rank/rank.h"
#include "launch/text/text.h"

namespace launch {
namespace {

using Settings = std::map<std::string, std::string>;

constexpr const char* kExamples = "examples";
constexpr const char* kRanks = "ranks";

// Those that may change between a checkpoint and what goes on from it, and whether a change is
// worth a note. All others say what is learnt, from what, and what the optimizer remembers.
const std::map<std::string_view, bool>& MayChange() {
  static const std::map<std::string_view, bool> options = {{"batch_size", true},
                                                           {"epochs", true},
                                                           {"max_steps", true},
                                                           {"learning_rate", true},
                                                           {"weight_decay", true},
                                                           {"clip_norm", true},
                                                           {"accumulate_steps", true},
                                                           {"on_nonfinite", true},
                                                           {"hook", true},
                                                           {kRanks, true},
                                                           {"bucket_bytes", false},
                                                           {"find_unused_parameters", false},
                                                           {"static_graph", false},
                                                           {"sync_batch_norm", true},
                                                           {"overlap_optimizer", false},
                                                           {"log_every", false},
                                                           {"eval_every", false},
                                                           {"losses", false},
                                                           {"checkpoint_dir", false},
                                                           {"checkpoint_every", false},
                                                           {"resume", false},
                                                           {"init_from", false}};
  return options;
}

Settings SettingsOf(const TrainOptions& options, int64_t num_examples, int num_ranks) {
  Settings settings;
  for (auto& [flag, value] : SharedOptions(options)) settings[flag] = value;
  settings[kExamples] = std::to_string(num_examples);
  settings[kRanks] = std::to_string(num_ranks);
  return settings;
}

ddp::Resume ResumeOf(const TrainOptions& options) {
  if (options.resume == "must") return ddp::Resume::kMust;
  return options.resume == "never" ? ddp::Resume::kNever : ddp::Resume::kAuto;
}

// Adds the time of a scope.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

}  // namespace

RunCheckpoints::RunCheckpoints(const TrainOptions& options, int64_t num_examples,
                               ddp::ProcessGroup& group)
    : directory_(options.checkpoint_dir),
      resume_(ResumeOf(options)),
      hook_(options.hook),
      every_(options.checkpoint_every),
      settings_(SettingsOf(options, num_examples, group.size())) {
  if (directory_.empty()) return;
  checkpointer_.emplace(group,
                        ddp::CheckpointerOptions{.directory = directory_, .keep = options.keep});
}

std::optional<ddp::Checkpoint> RunCheckpoints::Load() {
  if (!checkpointer_) return std::nullopt;
  std::optional<ddp::Checkpoint> checkpoint = checkpointer_->Load(resume_);
  for (const std::string& damage : checkpointer_->passed_over()) {
    notes_.push_back("passed over a damaged checkpoint: " + damage);
  }
  if (!checkpoint) return std::nullopt;
  notes_.push_back(fmt::format("goes on from {}: step {}, epoch {}", checkpointer_->loaded_path(),
                               checkpoint->step, checkpoint->epoch + 1));
  CheckSettings(*checkpoint);
  NoteWhatIsLost();
  return checkpoint;
}

// What differs from rank to rank isn't in a checkpoint.
void RunCheckpoints::NoteWhatIsLost() {
  const ddp::ChosenHook hook = ddp::MakeHook(hook_);
  if (hook.remembers) {
    notes_.push_back(
        fmt::format("--hook={}: what it carries over from step to step begins anew", hook_));
  }
  if (hook.averaging) {
    notes_.push_back(
        fmt::format("--hook={}: all ranks go on with rank 0's state of the optimizer", hook_));
  }
}

// What follows from the model isn't worth a word where the model is another one.
void RunCheckpoints::CheckSettings(const ddp::Checkpoint& checkpoint) {
  CheckSetting("model", checkpoint);
  for (const auto& [name, now] : settings_) CheckSetting(name, checkpoint);
}

void RunCheckpoints::CheckSetting(const std::string& name, const ddp::Checkpoint& checkpoint) {
  const auto found = checkpoint.settings.find(name);
  const std::string& now = settings_.at(name);
  if (found == checkpoint.settings.end() || found->second == now) return;
  if (name == kExamples) {
    throw std::invalid_argument(
        fmt::format("--checkpoint_dir={}: its run learnt from {} examples, this one's data has "
                    "{}; give it the same, or choose another folder",
                    directory_, found->second, now));
  }
  const auto may_change = MayChange().find(name);
  if (may_change == MayChange().end()) {
    throw std::invalid_argument(fmt::format(
        "--checkpoint_dir={}: its run was told --{}={}, this one --{}={}; tell the same, or "
        "choose another folder",
        directory_, name, found->second, name, now));
  }
  if (may_change->second) {
    notes_.push_back(fmt::format("{} was {} before, now {}", name, found->second, now));
  }
}

void RunCheckpoints::Prepare(const Learner& learner) {
  if (checkpointer_) checkpointer_->Prepare(learner.State());
}

bool RunCheckpoints::IsDue(const Learner& learner) const {
  if (!checkpointer_) return false;
  return learner.steps() == learner.total_steps() || (every_ > 0 && learner.steps() % every_ == 0);
}

void RunCheckpoints::Save(Learner& learner) {
  const Stopwatch stopwatch(seconds_);
  learner.AverageRanks();
  checkpointer_->Save(CheckpointOf(learner));
  ReportProgress();
}

void RunCheckpoints::Finish() {
  const Stopwatch stopwatch(seconds_);
  if (!checkpointer_) return;
  checkpointer_->Finish();
  ReportProgress();
}

void RunCheckpoints::SaveAlone(const Learner& learner) {
  if (!learner.is_between_steps()) {
    throw std::runtime_error("a step was broken off when a part of the weights had changed");
  }
  checkpointer_->SaveAlone(CheckpointOf(learner));
  ReportProgress();
}

ddp::Checkpoint RunCheckpoints::CheckpointOf(const Learner& learner) const {
  ddp::Checkpoint checkpoint = learner.State();
  checkpoint.settings = settings_;
  return checkpoint;
}

// What a restart would go on from, for the agent.
void RunCheckpoints::ReportProgress() {
  if (const auto step = checkpointer_->saved_step()) launch::ReportProgress(*step);
}

std::vector<ops::NamedTensor> InitialWeights(const TrainOptions& options,
                                             ddp::ProcessGroup& group) {
  const auto model = MakeModel(FindModel(options.model), ModelOptionsOf(options),
                               static_cast<uint64_t>(options.seed));
  ddp::Together(group, [&] {
    if (group.rank() != 0) return;
    NamingFlag("init_from", options.init_from, [&] { LoadWeights(options.init_from, *model); });
  });
  return ddp::BroadcastCheckpoint(group, {.tensors = {{"model", model->StateDict()}}})
      .Group("model");
}

}  // namespace launch
