// Reducer: averages the gradients of parameters over the ranks while backward runs.
//
// It places the gradients in buckets and hooks onto the parameters. In a Backward, each gradient
// that is complete ticks off its bucket; a full bucket leaves at once, but never before the buckets
// ahead of it, so that all ranks send them in the same order. When the walk back is done, what has
// not left yet follows, and Backward waits for all.
//
// One element behind the last gradient is the trouble flag: 0, unless this rank has found something
// wrong, such as a parameter without a gradient. It is averaged with the rest, so every rank learns
// at no cost whether any had trouble; then they tell each other what it was, and all throw the
// same.
//
// A Backward that someone else's exception ends leaves the other ranks waiting for buckets that
// won't come: the group is aborted, and the next operation of every rank says so.
// Used by DistributedDataParallel. The parameters' tensors are kept; the group must live as long as
// Backward is called, but may go before the Reducer does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/replicated/bucket_plan.h"
#include "ddp/replicated/work_list.h"
#include "ops/tensor/tensor.h"

namespace ddp {

class Reducer {
 public:
  // `parameters` in the order of registration, the same on all ranks; frozen ones are left out of
  // the buckets.
  Reducer(const std::vector<ops::NamedTensor>& parameters, ProcessGroup& group,
          const BucketLimits& limits);
  // Gradients stay where they are.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Whether a Backward that runs now averages its gradients.
  bool synchronizes() const { return synchronizes_; }
  void set_synchronizes(bool synchronizes) { synchronizes_ = synchronizes; }

  // Seconds that Backward has waited for buckets after its own work was done, in all.
  double exposed_seconds() const { return exposed_seconds_; }

 private:
  struct Parameter {
    std::string name;
    ops::Tensor tensor;
    ops::Tensor place;  // of its gradient
    size_t bucket = 0;
    int64_t hook = 0;
    bool ready = false;  // in the running Backward
  };
  struct Bucket {
    ops::Tensor memory;
    int num_parameters = 0;
    int num_pending = 0;  // not ready yet
  };
  class Pass;

  void MakeBucket(const BucketPlan& plan, bool last);

  // What a Backward brings, in this order.
  void OnGradient(Parameter& parameter);
  void SendFullBuckets();
  void FillIn();
  void Finish();
  // Either of these ends it.
  void ThrowTrouble();
  void Abandon() noexcept;

  void KeepInPlace(const Parameter& parameter);
  std::string FindTrouble() const;
  void Reset();

  ProcessGroup& group_;
  std::vector<Parameter> parameters_;
  std::vector<ops::NamedTensor> frozen_;
  std::vector<Bucket> buckets_;  // in the order in which they leave
  ops::Tensor trouble_flag_;     // in the last bucket
  bool synchronizes_ = true;
  double exposed_seconds_ = 0;

  // Of the running Backward.
  bool in_pass_ = false;
  std::string trouble_;  // this rank's
  WorkList sent_;        // the buckets that have left, the first ones
};

}  // namespace ddp
