#include "launch/trainer/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "ddp/data/sampler.h"
#include "ddp/errors.h"
#include "ddp/replicated/sync_batch_norm.h"
#include "launch/text/text.h"
#include "launch/trainer/optimizers.h"
#include "launch/trainer/precision.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/activations.h"
#include "ops/optim/clip.h"

namespace launch {
namespace {

using ops::Tensor;

// That goes on with an epoch of which all ranks together have had `consumed` examples.
ddp::DataLoader MakeLoader(const TrainOptions& options, const ddp::Dataset& data,
                           const ddp::ProcessGroup& group, int64_t epoch, int64_t consumed) {
  const ddp::DistributedSampler sampler(data.size(), {.rank = group.rank(),
                                                      .world_size = group.size(),
                                                      .seed = static_cast<uint64_t>(options.seed)});
  if (options.batch_size > sampler.num_examples()) {
    throw std::invalid_argument(fmt::format(
        "--batch_size={} is larger than the data: {} has {} examples, {} for each of {}",
        options.batch_size, options.data.ToString(), data.size(), sampler.num_examples(),
        FormatCount(group.size(), "rank")));
  }
  return ddp::DataLoader(
      data, sampler,
      {.batch_size = options.batch_size, .first_epoch = epoch, .first_epoch_consumed = consumed});
}

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// From the loader's first epoch on: as many as can be counted where there is no limit, or one
// beyond that.
int64_t CountBatches(const TrainOptions& options, const ddp::DataLoader& loader) {
  if (options.epochs == 0) return kMost;
  const int64_t epochs_left = options.epochs - loader.epoch();
  if (epochs_left <= 0) return 0;
  if (epochs_left > kMost / loader.num_batches()) return kMost;
  return (epochs_left - 1) * loader.num_batches() + loader.num_batches(loader.epoch());
}

// `steps_taken` included.
int64_t CountSteps(const TrainOptions& options, int64_t steps_taken, int64_t batches_left) {
  int64_t steps_left = batches_left / options.accumulate_steps;
  if (batches_left % options.accumulate_steps > 0) ++steps_left;
  const int64_t limit = options.max_steps == 0 ? kMost : options.max_steps;
  return std::max(steps_taken, std::min(limit, steps_taken + std::min(steps_left, kMost / 2)));
}

std::unique_ptr<ops::nn::Module> MakeModelToTrain(const TrainOptions& options,
                                                  ddp::ProcessGroup& group) {
  auto model = MakeModel(FindModel(options.model), ModelOptionsOf(options),
                         static_cast<uint64_t>(options.seed));
  model->To(PrecisionOf(options));
  if (options.sync_batch_norm) ddp::SynchronizeBatchNorm(*model, group);
  return model;
}

}  // namespace

Learner::Learner(const TrainOptions& options, const ddp::Dataset& data, ddp::ProcessGroup& group,
                 const ddp::Checkpoint* checkpoint)
    : precision_(PrecisionOf(options)),
      by_samples_(options.average == "samples"),
      overlaps_(options.overlap_optimizer),
      skips_nonfinite_(options.on_nonfinite == "skip"),
      batch_size_(options.batch_size),
      accumulate_steps_(options.accumulate_steps),
      clip_norm_(options.clip_norm),
      num_examples_(data.size()),
      rank_(group.rank()),
      num_ranks_(group.size()),
      position_(checkpoint ? Position{checkpoint->epoch, checkpoint->samples_in_epoch}
                           : Position{}),
      steps_(checkpoint ? checkpoint->step : 0),
      loader_(MakeLoader(options, data, group, position_.epoch, position_.consumed)),
      batches_left_(CountBatches(options, loader_)),
      total_steps_(CountSteps(options, steps_, batches_left_)),
      loss_of_(LossOf(FindModel(options.model).task)),
      hook_(ddp::MakeHook(options.hook, steps_)),
      model_(MakeModelToTrain(options, group)),
      replicated_(*model_, group, ReplicationOptions(options)),
      masters_(model_->Parameters()),
      optimizer_(MakeOptimizer(options, masters_.parameters())),
      schedule_(MakeSchedule(options, total_steps_)) {
  if (options.precision == "fp16") scaler_.emplace();
  if (hook_.averaging) averager_.emplace(masters_.parameters(), group, *hook_.averaging);
  if (checkpoint) Load(*checkpoint);
}

ddp::DistributedDataParallelOptions Learner::ReplicationOptions(const TrainOptions& options) {
  using Average = ddp::DistributedDataParallelOptions::Average;
  ddp::DistributedDataParallelOptions replication;
  replication.bucket_bytes = options.bucket_bytes;
  replication.first_bucket_bytes =
      std::min(replication.first_bucket_bytes, replication.bucket_bytes);
  replication.find_unused_parameters = options.find_unused_parameters;
  replication.static_graph = options.static_graph;
  if (by_samples_) replication.average = Average::kWeights;
  // The loss scaler looks by itself.
  replication.check_finite = options.on_nonfinite != "ignore" && options.precision != "fp16";
  if (options.hook != "none") replication.hook = hook_.hook;
  if (overlaps_) replication.on_reduced = [this](auto parameters) { StepBucket(parameters); };
  return replication;
}

double Learner::Step(bool with_gradient_norm) {
  absl::Cleanup undo = [this, steps = steps_, batches = batches_, position = position_] {
    steps_ = steps;
    batches_ = batches;
    position_ = position;
  };
  model_->ZeroGrad();
  optimizer_->ScaleLearningRates(ops::optim::LearningRateFactor(schedule_, steps_++));
  const int64_t num_batches = std::min(accumulate_steps_, batches_left_);
  batches_left_ -= num_batches;
  loss_ = loss_weight_ = 0;
  for (int64_t i = 1; i < num_batches; ++i) {
    const ddp::DistributedDataParallel::NoSync no_sync(replicated_);
    ops::Backward(Forward(num_batches));
  }
  if (BackwardOverRanks(Forward(num_batches))) {
    is_between_steps_ = false;
    UpdateWeights(with_gradient_norm);
  } else {
    ++skipped_steps_;
  }
  if (averager_) {
    averager_->Step();
    masters_.RoundIntoModel();
  }
  std::move(undo).Cancel();
  is_between_steps_ = true;
  return loss_weight_ > 0 ? loss_ / loss_weight_ : 0;
}

void Learner::AskToStop() {
  replicated_.RaiseFlag();
  loader_.LimitWaits(kDataPatience);
}

// The loss of the next batch, of `num_batches` that make a step, for Backward. By samples, a full
// batch counts 1 and the sum of the counts is divided by after Backward; so gradients are of the
// same size either way, which 16-bit numbers need.
ops::Tensor Learner::Forward(int64_t num_batches) {
  const ddp::Batch batch = NextBatch();
  const ops::nn::ScopedBatchPosition position(static_cast<uint64_t>(batches_++),
                                              rank_ * batch_size_);
  samples_ += batch.size();
  const Tensor outputs = OutputsOf(replicated_, batch.inputs, precision_);
  if (batch.size() == 0) return ops::Sum(outputs);  // 0, as are all gradients
  Tensor loss = loss_of_(outputs, batch.targets);
  const double share = static_cast<double>(batch.size()) / static_cast<double>(batch_size_);
  const double weight = by_samples_ ? share : 1 / static_cast<double>(num_batches);
  loss_ += weight * loss.Item();
  loss_weight_ += weight;
  if (weight != 1) loss = loss * weight;
  return scaler_ ? scaler_->Scale(loss) : loss;
}

// By samples, without those that the sampler repeats at the end of an epoch for ranks to have
// equally many: perhaps with none.
ddp::Batch Learner::NextBatch() {
  std::optional<ddp::Batch> batch = loader_.Next();
  if (!batch) batch = loader_.Next();  // an epoch has ended; this starts the next
  // Every num_ranks_th of what is left of the epoch is this rank's.
  const int64_t left = num_examples_ - position_.consumed - rank_;
  const int64_t count = std::clamp((left + num_ranks_ - 1) / num_ranks_, int64_t{0}, batch->size());
  position_.consumed += batch->size() * num_ranks_;
  if (position_.consumed >= num_examples_) position_ = {.epoch = position_.epoch + 1};
  if (!by_samples_ || count == batch->size()) return *std::move(batch);
  return {batch->inputs.Slice(0, count), batch->targets.Slice(0, count)};
}

// False where the step is to be left out.
bool Learner::BackwardOverRanks(const ops::Tensor& loss) {
  if (by_samples_) replicated_.SetWeight(loss_weight_);
  try {
    ops::Backward(loss);
    return true;
  } catch (const ddp::NonFiniteGradientError&) {
    if (!skips_nonfinite_) throw;
    gradient_norm_ = std::numeric_limits<double>::quiet_NaN();
    return false;
  }
}

void Learner::UpdateWeights(bool with_gradient_norm) {
  if (!overlaps_) masters_.WidenGradients();
  const bool finite = !scaler_ || scaler_->Unscale(masters_.parameters());
  if (clip_norm_ > 0) {
    gradient_norm_ = ops::optim::ClipGradNorm(masters_.parameters(), clip_norm_);
  } else if (with_gradient_norm) {
    gradient_norm_ = ops::optim::GradNorm(masters_.parameters());
  }
  if (!finite) {
    ++skipped_steps_;
  } else if (!overlaps_) {
    optimizer_->Step();
    masters_.RoundIntoModel();
  }
  if (scaler_) scaler_->Update();
}

// While later buckets travel.
void Learner::StepBucket(std::span<const ops::NamedTensor> parameters) {
  is_between_steps_ = false;
  masters_.WidenGradients(parameters);
  optimizer_->Step(parameters);
  masters_.RoundIntoModel(parameters);
}

void Learner::AverageRanks() {
  if (!averager_) return;
  averager_->Average();
  masters_.RoundIntoModel();
}

std::vector<ops::NamedTensor> Learner::StateDict() const {
  std::vector<ops::NamedTensor> state = masters_.parameters();
  const std::vector<ops::NamedTensor> buffers = model_->Buffers();
  state.insert(state.end(), buffers.begin(), buffers.end());
  return state;
}

void Learner::LoadWeights(const std::vector<ops::NamedTensor>& weights) {
  std::map<std::string_view, Tensor> by_name;
  for (const auto& [name, tensor] : weights) by_name.emplace(name, tensor);
  const std::vector<ops::NamedTensor> own = StateDict();
  for (const auto& [name, tensor] : own) {
    const auto given = by_name.find(name);
    if (given == by_name.end()) {
      throw std::invalid_argument(fmt::format("the weights lack '{}'", name));
    }
    if (given->second.shape() != tensor.shape()) {
      throw std::invalid_argument(fmt::format("'{}' is {}, expected {}", name,
                                              given->second.Describe(), tensor.Describe()));
    }
    tensor.CopyFrom(given->second);
    by_name.erase(given);
  }
  if (!by_name.empty()) {
    throw std::invalid_argument(
        fmt::format("the model has no '{}', which the weights have", by_name.begin()->first));
  }
  masters_.RoundIntoModel();
}

ddp::Checkpoint Learner::State() const {
  ddp::Checkpoint state = {
      .step = steps_,
      .epoch = position_.epoch,
      .samples_in_epoch = position_.consumed,
      .counters = {{"batches", batches_}, {"skipped_steps", skipped_steps_}},
      .tensors = {{"model", StateDict()}, {"optimizer", optimizer_->StateDict()}}};
  if (scaler_) state.tensors["loss_scaler"] = scaler_->StateDict();
  return state;
}

void Learner::Load(const ddp::Checkpoint& checkpoint) {
  LoadWeights(checkpoint.Group("model"));
  optimizer_->LoadStateDict(checkpoint.Group("optimizer"));
  if (scaler_) scaler_->LoadStateDict(checkpoint.Group("loss_scaler"));
  batches_ = checkpoint.counters.at("batches");
  skipped_steps_ = checkpoint.counters.at("skipped_steps");
}

int64_t Learner::num_parameters() const {
  int64_t count = 0;
  for (const ops::NamedTensor& parameter : optimizer_->parameters()) {
    count += parameter.tensor.num_elements();
  }
  return count;
}

}  // namespace launch
