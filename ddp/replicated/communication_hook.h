// What a user may put in the place of the all-reduce of a bucket: CommunicationHook.
//
// A hook in ten lines, gradients that travel as bfloat16:
//
//   ddp::CommunicationHook to_bf16 = [](ddp::ProcessGroup& group, const auto& bucket) {
//     const ops::Tensor small = bucket.gradients.To(ops::DType::kBFloat16);
//     return ddp::Then(group.AllReduce(ddp::BufferOf(small), ddp::ReduceOp::kSum),
//                      [small, all = bucket.gradients] { all.CopyFrom(small); });
//   };
//   ddp::DistributedDataParallel replicated(model, *group, {.hook = to_bf16});
//
// communication_hooks.h has the usual ones.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ops/tensor/tensor.h"

namespace ddp {

// A bucket whose gradients are all there.
struct GradientBucket {
  // Its place in the order in which buckets travel, from 0.
  int index = 0;
  int num_buckets = 1;
  // Changes when parameters are spread over the buckets anew: what a hook remembers of a bucket is
  // void then.
  int plan = 0;
  // All of the bucket, [elements]; gaps between the gradients are zeros.
  ops::Tensor gradients;
  // The gradient of each parameter, a view of `gradients`, under the parameter's name.
  std::vector<ops::NamedTensor> parts;
  // What this rank's gradients have been multiplied by already, such as 1 / ranks, so that their
  // sum over the ranks is the average.
  double scale = 1;
};

// Begins to add up the ranks' `bucket.gradients`, in place; they are the sum when Wait() of what it
// returns has come back. Called, as is that Wait(), on the thread of Backward, in the order of
// buckets and with the same buckets on every rank: so both may issue collectives of `group`. It is
// the group's size that counts, not how many ranks have something to give: a rank that has none
// takes part with zeros.
using CommunicationHook =
    std::function<std::shared_ptr<Work>(ProcessGroup& group, const GradientBucket& bucket)>;

// Work that is done when `first` is, and `next` has been called after it, by the first Wait().
std::shared_ptr<Work> Then(std::shared_ptr<Work> first, std::function<void()> next);

}  // namespace ddp
