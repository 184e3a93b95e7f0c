#include "launch/trainer/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ddp/data/sampler.h"
#include "launch/text/text.h"
#include "launch/trainer/optimizers.h"
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

ddp::DistributedDataParallelOptions ReplicationOptions(const TrainOptions& options) {
  ddp::DistributedDataParallelOptions replication;
  replication.bucket_bytes = options.bucket_bytes;
  replication.first_bucket_bytes =
      std::min(replication.first_bucket_bytes, replication.bucket_bytes);
  return replication;
}

}  // namespace

Learner::Learner(const TrainOptions& options, const ddp::Dataset& data, ddp::ProcessGroup& group)
    : accumulate_steps_(options.accumulate_steps),
      clip_norm_(options.clip_norm),
      first_example_(group.rank() * options.batch_size),
      loader_(MakeLoader(options, data, group)),
      batches_left_(CountBatches(options, loader_)),
      total_steps_(CountSteps(options, batches_left_)),
      loss_(LossOf(FindModel(options.model).task)),
      model_(MakeModel(FindModel(options.model), ModelOptionsOf(options),
                       static_cast<uint64_t>(options.seed))),
      replicated_(*model_, group, ReplicationOptions(options)),
      optimizer_(MakeOptimizer(options, model_->Parameters())),
      schedule_(MakeSchedule(options, total_steps_)) {}

double Learner::Step(bool with_gradient_norm) {
  optimizer_->ZeroGrad();
  const int64_t num_batches = std::min(accumulate_steps_, batches_left_);
  batches_left_ -= num_batches;
  double loss = 0;
  for (int64_t i = 1; i < num_batches; ++i) {
    const ddp::DistributedDataParallel::NoSync no_sync(replicated_);
    loss += ForwardBackward(num_batches);
  }
  loss += ForwardBackward(num_batches);
  UpdateWeights(with_gradient_norm);
  return loss / static_cast<double>(num_batches);
}

// Adds the gradients of one batch, of `num_batches` that make a step; returns its loss.
double Learner::ForwardBackward(int64_t num_batches) {
  const ddp::Batch batch = NextBatch();
  const ops::nn::ScopedBatchPosition position(static_cast<uint64_t>(batches_++), first_example_);
  samples_ += batch.size();
  const Tensor loss = loss_(replicated_.Forward(batch.inputs), batch.targets);
  ops::Backward(num_batches == 1 ? loss : loss / static_cast<double>(num_batches));
  return loss.Item();
}

ddp::Batch Learner::NextBatch() {
  std::optional<ddp::Batch> batch = loader_.Next();
  if (!batch) batch = loader_.Next();  // an epoch has ended; this starts the next
  return *std::move(batch);
}

void Learner::UpdateWeights(bool with_gradient_norm) {
  if (clip_norm_ > 0) {
    gradient_norm_ = ops::optim::ClipGradNorm(optimizer_->parameters(), clip_norm_);
  } else if (with_gradient_norm) {
    gradient_norm_ = ops::optim::GradNorm(optimizer_->parameters());
  }
  optimizer_->ScaleLearningRates(ops::optim::LearningRateFactor(schedule_, steps_++));
  optimizer_->Step();
}

int64_t Learner::num_parameters() const {
  int64_t count = 0;
  for (const ops::NamedTensor& parameter : optimizer_->parameters()) {
    count += parameter.tensor.num_elements();
  }
  return count;
}

}  // namespace launch
