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
// which backward completes them, and after the first Backward in the order in which they came; a
// full bucket is all-reduced at once, in one fixed order of buckets on all ranks, and Backward
// returns when the last is done. A Backward through the model itself is averaged like one through
// the wrapper.
//
// Every parameter must have a gradient when a synchronised Backward ends, from it or from an
// earlier one since the gradients were cleared, unless find_unused_parameters or static_graph
// allows otherwise: then one that some rank has used gets the average, with zeros from the others,
// and one that no rank has used has no gradient, so that optimizers leave it alone.
//
// Parameters that expect sparse gradients (ExpectSparseGrad in ops/autograd/grad.h; nn::Embedding's
// option `sparse` does it) get the average as a sparse gradient, coalesced: each rank gives the
// rows that it has touched, perhaps none. They travel behind the last bucket, past the hook.
//
// Parameters may be frozen and thawed between steps, by all ranks alike. The buckets follow.
//
// What is wrong, on any rank, that Backward throws on all of them, naming parameters and ranks:
// std::logic_error for a parameter without a gradient, one that not all ranks have frozen or
// thawed, one whose member in the model holds another tensor now, one that is reached otherwise
// than in the first step of a static graph, one whose gradient is dense where a sparse one was
// expected; NonFiniteGradientError where check_finite is set. The next step is as good as any. A
// Backward that reaches no parameter at all can't be seen: where only one rank runs such, its peers
// wait until their timeout. A Backward that ends by another exception aborts the group: the other
// ranks are waiting for its gradients.
//
// As in PyTorch, the model is the child "module" of the wrapper. The model and the group must live
// as long as the wrapper is used; they may be destroyed in any order.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "ddp/collectives/process_group.h"
#include "ddp/observer.h"
#include "ddp/replicated/communication_hook.h"
#include "ddp/replicated/join.h"
#include "ops/nn/module.h"

namespace ddp {

struct DistributedDataParallelOptions {
  // A bucket is closed when the next gradient would make it larger; one larger gradient has a
  // bucket of its own. The first bucket to travel is small, so that it leaves early.
  int64_t bucket_bytes = 25 << 20;
  int64_t first_bucket_bytes = 1 << 20;

  // When a Backward of a model in training mode has averaged gradients, buffers become: rank 0's;
  // the average of the ranks' (integers: rank 0's); or they stay each rank's own.
  enum class Buffers { kBroadcast, kAverage, kLocal };
  Buffers buffers = Buffers::kBroadcast;

  // Ranks may leave parameters out, others in each step.
  bool find_unused_parameters = false;
  // Every step reaches the parameters as the first one does: some perhaps never, some several
  // times (recomputed in parts that share them). What is never reached holds no bucket up.
  bool static_graph = false;

  // kRanks: gradients become their sum over the ranks, divided by the number of ranks. kWeights:
  // divided by the sum of the weights that the ranks have set (SetWeight). Where losses are sums
  // over samples or tokens and the weights count them, the gradient is that of the mean over the
  // whole batch, however it is spread over ranks and accumulated batches.
  enum class Average { kRanks, kWeights };
  Average average = Average::kRanks;

  // Look for NaN and infinity in each rank's gradients before they are averaged.
  bool check_finite = false;
  // In the place of the all-reduce; see communication_hook.h. Findings of ranks and sparse
  // gradients travel apart.
  CommunicationHook hook = nullptr;
  // Called with the parameters of each bucket as soon as their gradients are averages, while later
  // buckets may still travel: the optimizer's step, say. Not with unused parameters.
  std::function<void(std::span<const ops::NamedTensor>)> on_reduced = nullptr;
  // Told about each step; must outlive the wrapper.
  Observer* observer = nullptr;
};

class Reducer;

class DistributedDataParallel : public ops::nn::Module {
 public:
  // Throws std::invalid_argument where bucket sizes aren't positive, nothing is to be trained, or
  // options don't go together. In a world of one the wrapper costs nothing and checks nothing
  // unless an option asks for it.
  DistributedDataParallel(ops::nn::Module& model, ProcessGroup& group,
                          const DistributedDataParallelOptions& options = {});
  ~DistributedDataParallel() override;

  // The model's forward pass. Throws std::logic_error, and aborts the group, where the model holds
  // other tensors than it did.
  ops::Tensor Forward(const ops::Tensor& x) override;

  // With Average::kWeights, before each Backward that is averaged: what this rank's gradients
  // count, those of accumulated batches included. Throws std::invalid_argument unless finite and at
  // least 0.
  void SetWeight(double weight);

  // A word to all ranks that costs nothing: it travels with the gradients. When a Backward that
  // averages returns, any_flag_is_raised() is the same on all ranks: true where one or more had
  // raised theirs before their last bucket left. For stopping together, after the same step.
  // RaiseFlag may come from any thread, and holds for good. Optimizers that step in on_reduced have
  // stepped before.
  void RaiseFlag();
  bool any_flag_is_raised() const;

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
  // A line for each bucket: how large, and whose gradients it holds, in the order in which buckets
  // travel. "" in a world of one.
  std::string DescribeBuckets() const;

 private:
  friend void Join(DistributedDataParallel& replicated, const std::function<void()>& body,
                   const JoinOptions& options);

  void RequireSameTensors();
  std::function<void(int root)> BufferSynchronization();
  void SynchronizeBuffers(int root);

  ops::nn::Module& model_;
  ProcessGroup& group_;
  const DistributedDataParallelOptions options_;
  std::unique_ptr<Reducer> reducer_;          // null in a world of one
  std::atomic<bool> flag_is_raised_ = false;  // in a world of one
};

}  // namespace ddp
