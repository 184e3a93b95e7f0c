// Reducer: averages the gradients of parameters over the ranks while backward runs.
//
// It places the gradients in buckets and hooks onto the parameters. In a Backward, each gradient
// that is complete ticks off its bucket; a full bucket leaves at once, but never before the buckets
// ahead of it, so that all ranks send them in the same order. When the walk back is done, what has
// not left yet follows, and Backward waits for all. After the first time, parameters are spread
// over the buckets anew, in the order in which rank 0's gradients came.
//
// Behind the last gradient lies the tail: the trouble flag, 0 unless this rank has found something
// (findings.h), such as a parameter without a gradient; a flag of the user's; and, where parameters
// may be unused, a mark for each that this rank has used. It travels with the last bucket, which
// leaves when the walk has ended well, so every rank learns at no cost whether any had findings;
// then they tell each other, and all do the same: freeze or thaw parameters that all have, or
// throw.
//
// Parameters that expect sparse gradients (ops/autograd/grad.h) have no place in a bucket. Theirs
// are added up when all buckets have come back (sparse_reduction.h); the last bucket leaves no
// sooner than they are complete, so that the tail knows of them.
//
// A Backward that someone else's exception ends leaves the other ranks waiting for buckets that
// won't come: the group is aborted, and the next operation of every rank says so.
// Used by DistributedDataParallel. The parameters' tensors are kept; the group must live as long as
// Backward is called, but may go before the Reducer does.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/observer.h"
#include "ddp/replicated/attendance.h"
#include "ddp/replicated/bucket_plan.h"
#include "ddp/replicated/bucket_queue.h"
#include "ddp/replicated/communication_hook.h"
#include "ddp/replicated/findings.h"
#include "ddp/replicated/gradient_buckets.h"
#include "ops/nn/module.h"
#include "ops/tensor/tensor.h"

namespace ddp {

// As in DistributedDataParallelOptions.
struct ReducerOptions {
  BucketLimits limits;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool by_weight = false;
  bool check_finite = false;
  CommunicationHook hook;
  std::function<void(std::span<const ops::NamedTensor>)> on_reduced;
  // Called by all ranks when gradients are averages; `root` is a rank that had some.
  std::function<void(int root)> synchronize_buffers;
  Observer* observer = nullptr;
};

class Reducer {
 public:
  // `parameters` in the order of registration, the same on all ranks; frozen ones are left out of
  // the buckets. `handles`: where the model keeps them, which must live as long as Backward is
  // called.
  Reducer(const std::vector<ops::NamedTensor>& parameters,
          const std::vector<ops::nn::NamedHandle>& handles, ProcessGroup& group,
          ReducerOptions options);
  // Gradients stay where they are.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Whether a Backward that runs now averages its gradients.
  bool synchronizes() const { return synchronizes_; }
  void set_synchronizes(bool synchronizes) { synchronizes_ = synchronizes; }

  // This rank's weight in the next Backward that averages.
  void set_weight(double weight) { weight_ = weight; }

  // The parameters that the model doesn't hold any more.
  std::vector<std::string> Replaced() const;

  // While set, the ranks may have different numbers of batches: each Backward that averages begins
  // with a roll call. With `divides_by_active`, averages are over the ranks that have a batch.
  void set_attendance(Attendance* attendance, bool divides_by_active) {
    attendance_ = attendance;
    divides_by_active_ = divides_by_active;
  }
  // For a rank without a batch: takes part, with nothing to give, in the Backward that the others
  // have called the roll for. The gradients become the averages here too.
  void Follow(const Attendance::Roll& roll);

  // As DistributedDataParallel's.
  void RaiseFlag() { flag_is_raised_ = true; }
  bool any_flag_is_raised() const { return any_flag_is_raised_; }

  // Seconds that Backward has waited for buckets after its own work was done, in all.
  double exposed_seconds() const { return exposed_seconds_; }
  // A line for each bucket: what it holds, in the order in which buckets travel.
  std::string DescribeBuckets() const;

 private:
  class Pass;

  // The trouble flag, the user's flag and, where it matters who is used, a mark for each parameter.
  GradientBuckets::Tail tail_plan() const {
    return {.num_elements = 2 + (MayLackGradients() ? std::ssize(parameters_) : 0),
            .rides = !options_.hook};
  }
  void FillBuckets(std::vector<size_t> order);

  // What a Backward brings, in this order.
  void OnGradient(size_t index);
  void Begin();
  void BeginAs(const Attendance::Roll& roll);
  std::shared_ptr<Work> SendBucket(int index);
  void FillTail();
  ops::Tensor MarksOfUse();
  void ReduceSparse();
  void Finish();
  // Then either of these ends it.
  void Settle();
  void Abandon() noexcept;

  // What ranks settle.
  void ApplyMarks(const std::vector<double>& used);
  void LearnOrder();
  void Adopt(const Verdict& verdict, std::span<const Findings> ranks);
  // A gradient that is in no bucket; ranks without one give zeros.
  void AverageAlone(const ReducedParameter& parameter);

  bool MayLackGradients() const { return options_.find_unused_parameters || options_.static_graph; }
  bool DefersAll() const;
  bool HasGradient(const ReducedParameter& parameter) const;
  void FillIn(const ReducedParameter& parameter);
  Reduction AverageOfRanks() const;
  void NoteReady(size_t bucket);
  void Report(Clock::time_point walked, Clock::time_point finished);
  void Reset();

  ProcessGroup& group_;
  const ReducerOptions options_;
  std::vector<ReducedParameter> parameters_;
  std::vector<std::pair<size_t, const ops::Tensor*>> handles_;  // with the parameter's index
  GradientBuckets buckets_;
  std::optional<BucketQueue> queue_;
  ops::Tensor trouble_, flag_;  // parts of the tail
  std::atomic<bool> flag_is_raised_ = false;
  bool any_flag_is_raised_ = false;
  bool synchronizes_ = true;
  std::optional<double> weight_;
  Attendance* attendance_ = nullptr;
  bool divides_by_active_ = false;
  double exposed_seconds_ = 0;

  // Of the running Backward.
  bool in_pass_ = false;
  bool follows_ = false;
  int first_active_ = 0;
  std::optional<double> scale_;  // of this rank's gradients; nothing: the group averages
  Findings findings_;
  std::shared_ptr<Work> tail_work_;  // where it doesn't ride
  std::vector<size_t> arrivals_;     // of gradients
  bool order_is_known_ = false;
  // For the observer.
  Clock::time_point begun_;
  std::vector<BucketReport> reports_;
};

}  // namespace ddp
