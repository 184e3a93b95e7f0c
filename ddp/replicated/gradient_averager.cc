#include "ddp/replicated/gradient_averager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ddp/replicated/agreement.h"
#include "ddp/replicated/bucket_plan.h"
#include "ddp/replicated/bucket_queue.h"
#include "ddp/replicated/work_list.h"

namespace ddp {
namespace {

using ops::Tensor;

void RequireSameArrays(ProcessGroup& group, const std::vector<NamedArray>& arrays,
                       std::string settings) {
  std::vector<std::string> lines;
  for (const auto& [name, array] : arrays) {
    lines.push_back(fmt::format("array '{}' {}[{}]{}", name, ops::Name(array.dtype),
                                array.num_elements, array.device.is_cpu() ? "" : " on a GPU"));
  }
  lines.push_back(std::move(settings));
  RequireSameLines(group, lines, "the ranks' arrays");
}

void CheckGradient(const NamedArray& named) {
  const Buffer& array = named.array;
  if (array.num_elements < 0) {
    throw std::invalid_argument(
        fmt::format("array '{}' has {} elements", named.name, array.num_elements));
  }
  if (!ops::IsFloating(array.dtype)) {
    throw std::invalid_argument(
        fmt::format("array '{}' is {}: only floating point numbers have an average", named.name,
                    ops::Name(array.dtype)));
  }
}

// Memory that somebody else owns, as a tensor.
Tensor Borrow(const Buffer& array) {
  return Tensor::Wrap(ops::Memory(ops::Memory(), array.bytes()), {array.num_elements},
                      {array.dtype, array.device});
}

Tensor AllocateZeros(ProcessGroup& group, int64_t num_elements, const ops::TensorOptions& options) {
  const int64_t num_bytes = num_elements * ops::SizeOf(options.dtype);
  Tensor tensor = Tensor::Wrap(group.Allocate(num_bytes, options.device), {num_elements}, options);
  tensor.FillZero();
  return tensor;
}

}  // namespace

GradientAverager::GradientAverager(ProcessGroup& group, std::vector<NamedArray> arrays,
                                   const GradientAveragerOptions& options)
    : group_(group) {
  RequireSameArrays(group, arrays,
                    fmt::format("bucket_bytes {}, first_bucket_bytes {}", options.bucket_bytes,
                                options.first_bucket_bytes));
  if (arrays.empty()) throw std::invalid_argument("GradientAverager: no arrays to average");
  for (NamedArray& named : arrays) {
    CheckGradient(named);
    if (!indices_.emplace(named.name, num_arrays()).second) {
      throw std::invalid_argument(fmt::format("two arrays have the name '{}'", named.name));
    }
    Array& array = arrays_.emplace_back();
    array.name = std::move(named.name);
    array.tensor = Borrow(named.array);
  }
  MakeBuckets(options);
}

// Gives the arrays of a bucket their places in it, and returns all of it.
Tensor GradientAverager::Place(const BucketPlan& plan) {
  const Tensor& first = arrays_[plan.slots.front().parameter].tensor;
  if (plan.slots.size() == 1 && first.raw_data() != nullptr) return first;

  const int64_t element_bytes = ops::SizeOf(plan.dtype);
  const Tensor whole =
      AllocateZeros(group_, plan.num_bytes / element_bytes, {plan.dtype, plan.device});
  for (const BucketPlan::Slot& slot : plan.slots) {
    Array& array = arrays_[slot.parameter];
    const int64_t begin = slot.offset_bytes / element_bytes;
    const Tensor place = whole.Slice(begin, begin + array.tensor.num_elements());
    (array.tensor.raw_data() == nullptr ? array.tensor : array.place) = place;
  }
  return whole;
}

void GradientAverager::MakeBuckets(const GradientAveragerOptions& options) {
  std::vector<ops::NamedTensor> gradients;
  for (const Array& array : arrays_) gradients.push_back({array.name, array.tensor});
  std::vector<int> nums_arrays;
  for (const BucketPlan& plan :
       PlanBuckets(gradients, {options.bucket_bytes, options.first_bucket_bytes})) {
    Bucket bucket;
    for (const BucketPlan::Slot& slot : plan.slots) {
      Array& array = arrays_[slot.parameter];
      array.bucket = num_buckets();
      bucket.arrays.push_back(&array);
    }
    bucket.whole = Place(plan);
    nums_arrays.push_back(static_cast<int>(plan.slots.size()));
    buckets_.push_back(std::move(bucket));
  }
  trouble_flag_ = AllocateZeros(group_, 1, {ops::DType::kFloat32, buckets_.back().whole.device()});
  queue_ = std::make_unique<BucketQueue>(std::move(nums_arrays),
                                         [this](int bucket) { return Send(bucket); });
}

GradientAverager::~GradientAverager() {
  if (!in_round_) return;
  try {
    group_.Abort("a GradientAverager ended before its Wait()");
  } catch (...) {
    // The group has failed by itself; nobody waits for it.
  }
}

std::shared_ptr<Work> GradientAverager::Send(int bucket) {
  const Buffer whole = BufferOf(buckets_[bucket].whole);
  if (bucket + 1 < num_buckets()) return group_.AllReduce(whole, ReduceOp::kAverage);
  return group_.Coalesce([&] {
    group_.AllReduce(whole, ReduceOp::kAverage);
    group_.AllReduce(BufferOf(trouble_flag_), ReduceOp::kMax);
  });
}

void GradientAverager::Ready(int index) {
  Checked(index);
  Array& array = arrays_[index];
  if (array.is_ready) {
    throw std::logic_error(fmt::format("array '{}' is ready twice in one round", array.name));
  }
  array.is_ready = true;
  in_round_ = true;
  if (array.place.defined()) array.place.CopyFrom(array.tensor);
  queue_->Tick(array.bucket);
}

void GradientAverager::Wait() {
  const std::vector<std::string> missing = Missing();
  if (!missing.empty()) trouble_flag_.Fill(1);
  // A round ends here, whatever happens: the queue waits for all that was sent.
  in_round_ = false;
  for (Array& array : arrays_) array.is_ready = false;
  queue_->Flush();
  queue_->Wait([this](int bucket) {
    for (const Array* array : buckets_[bucket].arrays) {
      if (array->place.defined()) array->tensor.CopyFrom(array->place);
    }
  });
  if (trouble_flag_.Item() != 0) ThrowMissing(missing);
}

void GradientAverager::ThrowMissing(const std::vector<std::string>& mine) {
  trouble_flag_.FillZero();
  std::vector<std::string> told;
  const std::vector<std::string> all = group_.ExchangeBlobs(mine.empty() ? "" : ListNames(mine));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) told.push_back(fmt::format("rank {}: {}", rank, all[rank]));
  }
  throw std::logic_error(
      fmt::format("Wait() was called without Ready() for {}", fmt::join(told, "; ")));
}

std::vector<std::string> GradientAverager::Missing() const {
  std::vector<std::string> names;
  for (const Array& array : arrays_) {
    if (!array.is_ready) names.push_back(array.name);
  }
  return names;
}

int GradientAverager::IndexOf(std::string_view name) const {
  const auto found = indices_.find(std::string(name));
  if (found == indices_.end()) {
    throw std::invalid_argument(fmt::format("there is no array '{}'", name));
  }
  return found->second;
}

const GradientAverager::Array& GradientAverager::Checked(int index) const {
  if (index < 0 || index >= num_arrays()) {
    throw std::invalid_argument(
        fmt::format("there is no array {}, only 0 to {}", index, num_arrays() - 1));
  }
  return arrays_[index];
}

void BroadcastFromRank0(ProcessGroup& group, const std::vector<NamedArray>& arrays) {
  RequireSameArrays(group, arrays, "");
  WorkList works;
  for (const NamedArray& named : arrays) works.Add(group.Broadcast(named.array, /*root=*/0));
  works.Wait();
}

}  // namespace ddp
