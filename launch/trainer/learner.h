// Learner: the part of a training run that learns. It takes batches from the data, and steps.
//
//   Learner learner(options, *datasets.train, *group);
//   for (int64_t step = 1; step <= learner.total_steps(); ++step) double loss = learner.Step();
//
// A run that was interrupted goes on from its State, bit for bit where there are as many ranks, and
// on any number of them without leaving out or repeating an example:
//
//   Learner resumed(options, *datasets.train, *group, &checkpoint);
//
// The steady state of a step allocates nothing of its own, and reads a clock only to count
// what it waits for: data and other ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "ddp/checkpoint/checkpoint.h"
#include "ddp/collectives/process_group.h"
#include "ddp/data/data_loader.h"
#include "ddp/data/dataset.h"
#include "ddp/replicated/communication_hooks.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "launch/models/models.h"
#include "launch/trainer/options.h"
#include "ops/nn/module.h"
#include "ops/optim/loss_scaler.h"
#include "ops/optim/master_weights.h"
#include "ops/optim/optimizer.h"
#include "ops/optim/schedule.h"

namespace launch {

class Learner {
 public:
  // `data` and `group` must outlive it. Throws std::invalid_argument, with both numbers, for a
  // batch that is larger than the data, and for a `checkpoint` of another model or optimizer.
  // `checkpoint`, null for a run that begins, is needed only here.
  Learner(const TrainOptions& options, const ddp::Dataset& data, ddp::ProcessGroup& group,
          const ddp::Checkpoint* checkpoint = nullptr);

  // How many steps the limits in the options allow, those before the checkpoint included.
  int64_t total_steps() const { return total_steps_; }
  // How many were taken, those before the checkpoint included.
  int64_t steps() const { return steps_; }

  // One step of the optimizer, on accumulate_steps batches; the last step has what is left. Returns
  // this rank's loss before the step, the mean over its batches, or over its examples with
  // --average=samples; 0 where it has none. Throws ddp::NonFiniteGradientError, on all ranks, with
  // --on_nonfinite=stop.
  double Step(bool with_gradient_norm = false);
  // False after a Step that threw when it had stepped some parameters already. After any other that
  // threw, all is as before that step but for gradients and, of batch norm, running statistics that
  // have seen its batch; State() may be saved.
  bool is_between_steps() const { return is_between_steps_; }

  // Asks all ranks to stop; any thread may. The ranks agree on the step: after it,
  // stop_is_agreed() is true on all of them. A rank that waits for data then waits a while longer,
  // at most kDataPatience: Step throws ddp::DataStalledError.
  void AskToStop();
  bool stop_is_agreed() const { return replicated_.any_flag_is_raised(); }
  static constexpr ddp::Duration kDataPatience = std::chrono::seconds(5);

  // What that loss counts in means over ranks and steps: 1, or with --average=samples the examples,
  // in full batches.
  double loss_weight() const { return loss_weight_; }
  // Steps left out so far, on all ranks, because a gradient wasn't finite.
  int64_t skipped_steps() const { return skipped_steps_; }

  // At the last step that was asked for it: the Euclidean norm of all gradients together, before
  // clipping.
  double gradient_norm() const { return gradient_norm_; }

  // With parameters of --precision. Between steps, ranks have the same ones unless --hook=local
  // lets them drift: AverageRanks, which all ranks call, ends that.
  ops::nn::Module& model() const { return *model_; }
  void AverageRanks();
  // What a float32 model would be saved as, whatever the precision. The tensors change with each
  // step.
  std::vector<ops::NamedTensor> StateDict() const;
  // The inverse. Throws std::invalid_argument for a name that only one side has, and for another
  // shape.
  void LoadWeights(const std::vector<ops::NamedTensor>& weights);
  // All that the next steps depend on, but for the options. The tensors change with each step; of
  // ranks that drift, each has its own. What hooks carry over from step to step isn't part of it.
  ddp::Checkpoint State() const;
  int64_t num_parameters() const;
  double learning_rate() const { return optimizer_->learning_rate(); }

  // So far, on this rank, since it was made: examples learnt from; the epoch (from 1); and seconds
  // spent waiting for data and, after backward's own work, for other ranks.
  int64_t samples() const { return samples_; }
  int64_t epoch() const { return loader_.epoch() + 1; }
  double data_seconds() const { return loader_.wait_seconds(); }
  double communication_seconds() const { return replicated_.exposed_communication_seconds(); }

 private:
  // Where in the data all ranks together are.
  struct Position {
    int64_t epoch = 0;
    int64_t consumed = 0;  // examples of the epoch
  };

  void Load(const ddp::Checkpoint& checkpoint);
  ddp::DistributedDataParallelOptions ReplicationOptions(const TrainOptions& options);
  ops::Tensor Forward(int64_t num_batches);
  ddp::Batch NextBatch();
  bool BackwardOverRanks(const ops::Tensor& loss);
  void UpdateWeights(bool with_gradient_norm);
  void StepBucket(std::span<const ops::NamedTensor> parameters);

  const ops::DType precision_;
  const bool by_samples_;
  const bool overlaps_;
  const bool skips_nonfinite_;
  const int64_t batch_size_;
  const int64_t accumulate_steps_;
  const double clip_norm_;
  const int64_t num_examples_;  // of all ranks in an epoch, none repeated
  const int rank_;
  const int num_ranks_;
  Position position_;
  int64_t steps_;
  ddp::DataLoader loader_;
  int64_t batches_left_;
  const int64_t total_steps_;
  const Loss loss_of_;
  const ddp::ChosenHook hook_;
  const std::unique_ptr<ops::nn::Module> model_;
  ddp::DistributedDataParallel replicated_;  // the model, with gradients averaged over the ranks
  ops::optim::MasterWeights masters_;        // the parameters themselves in float32
  std::optional<ops::optim::LossScaler> scaler_;
  std::optional<ddp::PeriodicAverager> averager_;
  const std::unique_ptr<ops::optim::Optimizer> optimizer_;
  const ops::optim::ScheduleOptions schedule_;
  int64_t batches_ = 0;
  int64_t skipped_steps_ = 0;
  bool is_between_steps_ = true;
  double loss_ = 0;  // of the running step, times its weight
  double loss_weight_ = 0;
  double gradient_norm_ = 0;
  int64_t samples_ = 0;
};

}  // namespace launch
