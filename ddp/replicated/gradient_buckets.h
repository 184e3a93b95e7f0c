// GradientBuckets: where the gradients of a model's parameters lie, so that many travel at once.
//
//   GradientBuckets buckets(group, limits);
//   buckets.Fill(parameters, UsualOrder(parameters), {.num_elements = 1, .rides = true});
//   group.AllReduce(BufferOf(buckets[0].memory), ReduceOp::kAverage)->Wait();
//
// Gradients are placed: Backward writes them where they lie, nothing is copied. What an earlier
// Backward left moves along when buckets are filled anew.
//
// Behind the last gradient lies the tail: a few elements of the Reducer's own, which ride in the
// last bucket or, where a communication hook takes that, lie in memory of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/replicated/bucket_plan.h"
#include "ddp/replicated/communication_hook.h"
#include "ops/tensor/tensor.h"

namespace ddp {

// A parameter, and what the running Backward has done with it.
struct ReducedParameter {
  std::string name;
  ops::Tensor tensor;
  bool trained = false;  // false: frozen, with no part in any bucket
  bool sparse = false;   // is its gradient expected to be
  ops::Tensor place;     // of its gradient, in a bucket; undefined where that is sparse
  size_t bucket = 0;     // which waits for it
  int64_t hook = 0;
  // How often a Backward completes its gradient, where that is known; more than once where
  // recomputation visits it in parts.
  std::optional<int> expected;
  int completed = 0;  // in the running Backward
  // It has a gradient of Backwards that sent nothing, and was thawed for these.
  bool is_local = false;

  // Whether this rank has one, dense or sparse.
  bool HasGradient() const;
  // Puts a dense gradient back where it belongs: SetGrad may have put another tensor in its stead.
  void KeepInPlace() const;
};

// The indices of those that lie in buckets, in about the order in which Backward completes them:
// the reverse of their registration.
std::vector<size_t> UsualOrder(std::span<const ReducedParameter> parameters);

class GradientBuckets {
 public:
  struct Bucket {
    GradientBucket gradients;
    ops::Tensor memory;  // the gradients and, of the last bucket, the tail if it rides
    std::vector<ops::NamedTensor> trained;  // the parameters
    std::vector<size_t> parameters;         // and their indices
  };
  struct Tail {
    int64_t num_elements = 0;
    bool rides = true;
  };

  GradientBuckets(ProcessGroup& group, const BucketLimits& limits)
      : group_(group), limits_(limits) {}

  // Makes new buckets for the parameters in `order`, in which their gradients are expected, and
  // places the gradients. There is at least one, if empty, for the tail.
  void Fill(std::span<ReducedParameter> parameters, std::vector<size_t> order, const Tail& tail);

  // In the order in which they leave.
  size_t size() const { return buckets_.size(); }
  const Bucket& operator[](size_t index) const { return buckets_[index]; }
  auto begin() const { return buckets_.begin(); }
  auto end() const { return buckets_.end(); }

  const std::vector<size_t>& order() const { return order_; }
  ops::Tensor& tail() { return tail_; }
  // A line for each: what it holds.
  std::string Describe() const;

 private:
  void Add(const BucketPlan& plan, std::span<ReducedParameter> parameters,
           const std::vector<size_t>& planned, int64_t num_in_tail);

  ProcessGroup& group_;
  const BucketLimits limits_;
  std::vector<size_t> order_;
  std::vector<Bucket> buckets_;
  ops::Tensor tail_;
  int num_fillings_ = 0;
};

}  // namespace ddp
