// Local SGD: ranks step by their own gradients, and average their parameters now and then (Lin et
// al., "Don't Use Large Mini-Batches, Use Local SGD", ICLR 2020). As PyTorch's
// post_localSGD_hook and PeriodicModelAverager:
//
//   DistributedDataParallel replicated(model, *group, {.hook = LocalSgd({.start_step = 100})});
//   PeriodicAverager averager(model.Parameters(), *group, {.period = 4, .warm_up_steps = 100});
//   for (...) {
//     Backward(loss);
//     optimizer.Step();
//     averager.Step();
//   }
//
// Parameters differ between ranks in between: average before saving or evaluating them.
//
// Bytes that a rank sends: what the inner hook does before start_step, then none; the averager's
// are 2 (ranks - 1) / ranks times those of the parameters, each `period` steps.
#pragma once

#include <cstdint>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/replicated/communication_hook.h"
#include "ddp/replicated/hooks/all_reduce.h"
#include "ops/tensor/tensor.h"

namespace ddp {

struct LocalSgdOptions {
  // Before this step, counted from 0, gradients are added up by the inner hook. Afterwards each
  // rank keeps its own, and their scale is undone.
  int64_t start_step = 0;
  // The step that comes first: not 0 where a training goes on from a checkpoint.
  int64_t first_step = 0;
};

CommunicationHook LocalSgd(const LocalSgdOptions& options = {},
                           CommunicationHook inner = AllReduceGradients);

struct PeriodicAveragerOptions {
  int64_t period = 4;
  // In so many steps at first nothing is averaged, then in the next one, and in every `period`th
  // from there. At most LocalSgdOptions::start_step, unless some drift is meant.
  int64_t warm_up_steps = 0;
  // The step that comes first, as above.
  int64_t first_step = 0;
};

class PeriodicAverager {
 public:
  // Averages those of the parameters that require a gradient at the time, over `group`, which must
  // outlive this. Throws std::invalid_argument for a period below 1.
  PeriodicAverager(std::vector<ops::NamedTensor> parameters, ProcessGroup& group,
                   const PeriodicAveragerOptions& options = {});

  // After each step of the optimizer, on every rank; averages if it is time.
  void Step();
  // Averages now; doesn't count as a step.
  void Average();

 private:
  const std::vector<ops::NamedTensor> parameters_;
  ProcessGroup& group_;
  const PeriodicAveragerOptions options_;
  int64_t num_steps_;
};

}  // namespace ddp
