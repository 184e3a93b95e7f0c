// DistributedDataParallel: every rank has the whole model and its own part of each batch; gradients
// are averaged over the ranks while backward still runs.
//
//   ddp::DistributedDataParallel replicated(model, *group);
//   optim::Sgd optimizer(model.Parameters(), {.learning_rate = 0.01});
//   for (...) {
//     optimizer.ZeroGrad();
//     Tensor loss = nn::MseLoss(replicated.Forward(inputs), targets);
//     Backward(loss);      // afterwards every gradient is the average, bit-equal on every rank
//     optimizer.Step();
//   }
//
// The constructor compares the parameters of all ranks (names, shapes, dtypes, in order, and which
// are frozen) and throws MismatchError on every rank, naming the first that differs and both sides;
// then it broadcasts rank 0's parameters and buffers. Gradients lie in buckets from then on
// (Grad(parameter) is a view), filled in reverse order of registration, which is about the order in
// which backward completes them; a full bucket is all-reduced at once, in one fixed order of
// buckets on all ranks, and Backward returns when the last is done.
//
// A parameter that a synchronised Backward did not reach makes that Backward throw
// std::logic_error that names it. The model and the group must outlive the wrapper.
#pragma once

#include <cstdint>
#include <memory>

#include "ddp/collectives/process_group.h"
#include "ops/nn/module.h"

namespace ddp {

struct DistributedDataParallelOptions {
  // A bucket is closed when the next gradient would make it larger; one larger gradient has a
  // bucket of its own. The first bucket to travel is small, so that it leaves early.
  int64_t bucket_bytes = 25 << 20;
  int64_t first_bucket_bytes = 1 << 20;
  // Broadcast rank 0's buffers before each forward pass in training mode.
  bool broadcast_buffers = true;
};

class Reducer;

class DistributedDataParallel : public ops::nn::Module {
 public:
  DistributedDataParallel(ops::nn::Module& model, ProcessGroup& group,
                          const DistributedDataParallelOptions& options = {});
  ~DistributedDataParallel() override;

  // The model's forward pass.
  ops::Tensor Forward(const ops::Tensor& x) override;

  // For accumulation: a Backward that runs while a NoSync lives adds to the local gradients without
  // sending them; the next one outside sends the sums.
  //
  //   { ddp::DistributedDataParallel::NoSync no_sync(replicated); Backward(first_loss); }
  //   Backward(second_loss);
  class NoSync {
   public:
    explicit NoSync(DistributedDataParallel& replicated);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Reducer& reducer_;
    bool previous_;
  };

  // Seconds that Backward has spent waiting for buckets after its own work was done, in all.
  double exposed_communication_seconds() const;

 private:
  ops::nn::Module& model_;
  ProcessGroup& group_;
  DistributedDataParallelOptions options_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace ddp
