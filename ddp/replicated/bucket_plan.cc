#include "ddp/replicated/bucket_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

int64_t AlignUp(int64_t offset) {
  return (offset + kGradientAlignment - 1) / kGradientAlignment * kGradientAlignment;
}

// The buckets of one type and device, as they fill.
class Filling {
 public:
  Filling(ops::DType dtype, ops::Device device, const BucketLimits& limits)
      : limits_(limits), limit_(limits.first_bytes), open_{dtype, device, 0, {}} {}

  bool Takes(const ops::Tensor& parameter) const {
    return parameter.dtype() == open_.dtype && parameter.device() == open_.device;
  }

  // Moves the open bucket to `full` first when there's no room.
  void Put(int index, int64_t num_bytes, std::vector<BucketPlan>& full) {
    if (!open_.slots.empty() && AlignUp(open_.num_bytes) + num_bytes > limit_) Close(full);
    const int64_t offset = AlignUp(open_.num_bytes);
    open_.slots.push_back({index, offset});
    open_.num_bytes = offset + num_bytes;
  }

  void Close(std::vector<BucketPlan>& full) {
    full.push_back(std::exchange(open_, {open_.dtype, open_.device, 0, {}}));
    limit_ = limits_.bytes;
  }

 private:
  BucketLimits limits_;
  int64_t limit_;
  BucketPlan open_;
};

}  // namespace

std::vector<BucketPlan> PlanBuckets(std::span<const ops::NamedTensor> parameters,
                                    const BucketLimits& limits) {
  if (limits.bytes < 1 || limits.first_bytes < 1) {
    throw std::invalid_argument(
        fmt::format("buckets of bucket_bytes {} and first_bucket_bytes {}: both must be positive",
                    limits.bytes, limits.first_bytes));
  }
  std::vector<BucketPlan> buckets;
  std::vector<Filling> fillings;
  for (int i = static_cast<int>(parameters.size()) - 1; i >= 0; --i) {
    const ops::Tensor& parameter = parameters[i].tensor;
    auto filling = std::ranges::find_if(
        fillings, [&](const Filling& candidate) { return candidate.Takes(parameter); });
    if (filling == fillings.end()) {
      filling = fillings.emplace(fillings.end(), parameter.dtype(), parameter.device(), limits);
    }
    filling->Put(i, parameter.num_bytes(), buckets);
  }
  for (Filling& filling : fillings) filling.Close(buckets);
  // Reverse order of registration, by the last gradient that makes a bucket full.
  std::ranges::sort(buckets, [](const BucketPlan& a, const BucketPlan& b) {
    return a.slots.back().parameter > b.slots.back().parameter;
  });
  return buckets;
}

}  // namespace ddp
