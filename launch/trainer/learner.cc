#include "launch/trainer/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

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

ddp::DataLoader MakeLoader(const TrainOptions& options, const ddp::Dataset& data,
                           const ddp::ProcessGroup& group) {
  const ddp::DistributedSampler sampler(data.size(), {.rank = group.rank(),
                                                      .world_size = group.size(),
                                                      .seed = static_cast<uint64_t>(options.seed)});
  if (options.batch_size > sampler.num_examples()) {
    throw std::invalid_argument(fmt::format(
        "--batch_size={} is larger than the data: {} has {} examples, {} for each of {}",
        options.batch_size, options.data.ToString(), data.size(), sampler.num_examples(),
        FormatCount(group.size(), "rank")));
  }
  return ddp::DataLoader(data, sampler, {.batch_size = options.batch_size});
}

// As many as can be counted where there is no limit, or one beyond that.
int64_t CountBatches(const TrainOptions& options, const ddp::DataLoader& loader) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const bool is_countable = options.epochs > 0 && options.epochs <= kMost / loader.num_batches();
  return is_countable ? options.epochs * loader.num_batches() : kMost;
}

int64_t CountSteps(const TrainOptions& options, int64_t num_batches) {
  const int64_t steps = (num_batches - 1) / options.accumulate_steps + 1;
  return options.max_steps == 0 ? steps : std::min(steps, options.max_steps);
}

// Of one rank, none repeated.
int64_t CountExamples(const ddp::Dataset& data, const ddp::ProcessGroup& group) {
  using Uneven = ddp::DistributedSamplerOptions::Uneven;
  return ddp::DistributedSampler(
             data.size(),
             {.rank = group.rank(), .world_size = group.size(), .uneven = Uneven::kExact})
      .num_examples();
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

Learner::Learner(const TrainOptions& options, const ddp::Dataset& data, ddp::ProcessGroup& group)
    : precision_(PrecisionOf(options)),
      by_samples_(options.average == "samples"),
      overlaps_(options.overlap_optimizer),
      skips_nonfinite_(options.on_nonfinite == "skip"),
      batch_size_(options.batch_size),
      accumulate_steps_(options.accumulate_steps),
      clip_norm_(options.clip_norm),
      num_examples_(CountExamples(data, group)),
      first_example_(group.rank() * options.batch_size),
      loader_(MakeLoader(options, data, group)),
      batches_left_(CountBatches(options, loader_)),
      total_steps_(CountSteps(options, batches_left_)),
      loss_of_(LossOf(FindModel(options.model).task)),
      hook_(ddp::MakeHook(options.hook)),
      model_(MakeModelToTrain(options, group)),
      replicated_(*model_, group, ReplicationOptions(options)),
      masters_(model_->Parameters()),
      optimizer_(MakeOptimizer(options, masters_.parameters())),
      schedule_(MakeSchedule(options, total_steps_)) {
  if (options.precision == "fp16") scaler_.emplace();
  if (hook_.averaging) averager_.emplace(masters_.parameters(), group, *hook_.averaging);
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
    UpdateWeights(with_gradient_norm);
  } else {
    ++skipped_steps_;
  }
  if (averager_) {
    averager_->Step();
    masters_.RoundIntoModel();
  }
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
  const ops::nn::ScopedBatchPosition position(static_cast<uint64_t>(batches_++), first_example_);
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
  const int64_t first = batches_ % loader_.num_batches() * batch_size_;
  const int64_t count = std::min(batch->size(), num_examples_ - first);
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

int64_t Learner::num_parameters() const {
  int64_t count = 0;
  for (const ops::NamedTensor& parameter : optimizer_->parameters()) {
    count += parameter.tensor.num_elements();
  }
  return count;
}

}  // namespace launch
