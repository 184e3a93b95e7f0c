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
// Every parameter must have a gradient when a synchronised Backward ends, from it or from an
// earlier one since the gradients were cleared. Otherwise that Backward throws std::logic_error on
// every rank, with the names of the parameters and the ranks that lack them. A Backward that
// reaches no parameter at all can't be seen: where only one rank runs such, its peers wait until
// their timeout. A Backward that ends by another exception aborts the group: the other ranks are
// waiting for its gradients.
//
// As in PyTorch, the model is the child "module" of the wrapper. The model and the group must live
// as long as the wrapper is used; they may be destroyed in any order.
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
  // Broadcast rank 0's buffers before each forward pass in training mode, but for accumulation.
  bool broadcast_buffers = true;
};

class Reducer;

class DistributedDataParallel : public ops::nn::Module {
 public:
  // Throws std::invalid_argument where bucket sizes aren't positive or nothing is to be trained.
  // In a world of one the wrapper costs nothing and checks nothing.
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
    Reducer* reducer_;  // null in a world of one
    bool previous_ = true;
  };

  // Seconds that Backward has spent waiting for buckets after its own work was done, in all.
  double exposed_communication_seconds() const;

 private:
  ops::nn::Module& model_;
  ProcessGroup& group_;
  bool broadcasts_buffers_ = false;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace ddp
