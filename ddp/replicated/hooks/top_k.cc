#include "ddp/replicated/hooks/top_k.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "ddp/replicated/hooks/all_reduce.h"
#include "ddp/replicated/hooks/bucket_states.h"
#include "ddp/replicated/hooks/error_feedback.h"

namespace ddp {
namespace {

using ops::DType;
using ops::Tensor;

// The indices of the k largest absolute values, ascending.
void FindLargest(std::span<const float> values, std::span<int32_t> indices) {
  // Without their sign, float32 are ordered as the integers of the same bits, infinity and then NaN
  // last. The index makes keys unique, and the first of equals the largest.
  std::vector<uint64_t> keys(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t magnitude = std::bit_cast<uint32_t>(values[i]) & 0x7fffffff;
    keys[i] = magnitude << 32 | (0xffffffff - i);
  }
  const size_t k = indices.size();
  if (k < keys.size()) {
    std::nth_element(keys.begin(), keys.begin() + k, keys.end(), std::greater<>());
  }
  for (size_t j = 0; j < k; ++j) indices[j] = static_cast<int32_t>(0xffffffff - keys[j]);
  std::sort(indices.begin(), indices.end());
}

class TopKHook {
 public:
  explicit TopKHook(double ratio) : ratio_(ratio) {}

  std::shared_ptr<Work> Send(ProcessGroup& group, const GradientBucket& bucket) {
    const DType dtype = bucket.gradients.dtype();
    const int64_t n = bucket.gradients.num_elements();
    if (n > std::numeric_limits<int32_t>::max()) {
      throw std::invalid_argument(fmt::format("topk: a bucket of {} elements is too large", n));
    }
    const auto feedback = feedbacks_.Of(bucket, n);
    const Tensor values = bucket.gradients.To(DType::kFloat32);
    feedback->AddTo(values.elements<float>());

    const auto k = static_cast<int64_t>(std::ceil(ratio_ * static_cast<double>(n)));
    const Tensor indices = Tensor::Empty({k}, {.dtype = DType::kInt32});
    FindLargest(values.elements<float>(), indices.elements<int32_t>());
    const Tensor chosen = Choose(values, indices, dtype, *feedback);

    const Tensor all_indices = Tensor::Empty({k * group.size()}, {.dtype = DType::kInt32});
    const Tensor all_chosen = Tensor::Empty({k * group.size()}, {.dtype = dtype});
    auto gathered = group.Coalesce([&] {
      group.AllGather(BufferOf(indices), BufferOf(all_indices));
      group.AllGather(BufferOf(chosen), BufferOf(all_chosen));
    });
    // `indices` and `chosen` must live until they have travelled.
    return Then(gathered,
                [indices, chosen, all_indices, all_chosen, values, gradients = bucket.gradients] {
                  AddUp(all_indices, all_chosen.To(DType::kFloat32), values);
                  gradients.CopyFrom(values);
                });
  }

 private:
  // The elements that travel, rounded to `dtype`; notes what doesn't.
  static Tensor Choose(const Tensor& values, const Tensor& indices, DType dtype,
                       ErrorFeedback& feedback) {
    const std::span<const float> all = values.elements<float>();
    const Tensor chosen = Tensor::Empty(indices.shape());
    float* const chosen_values = chosen.data<float>();
    for (int64_t j = 0; const int32_t i : indices.elements<int32_t>()) chosen_values[j++] = all[i];
    const Tensor rounded = chosen.To(dtype);

    for (size_t i = 0; i < all.size(); ++i) feedback.Note(i, all[i], 0);
    const std::vector<float> sent = rounded.ToVector<float>();
    for (int64_t j = 0; const int32_t i : indices.elements<int32_t>()) {
      feedback.Note(i, all[i], sent[j++]);
    }
    return rounded;
  }

  static void AddUp(const Tensor& indices, const Tensor& chosen, const Tensor& sum) {
    sum.FillZero();
    float* const sums = sum.data<float>();
    const float* value = chosen.data<float>();
    for (const int32_t i : indices.elements<int32_t>()) sums[i] += *value++;
  }

  const double ratio_;
  BucketStates<ErrorFeedback> feedbacks_;
};

}  // namespace

CommunicationHook TopK(double ratio) {
  if (!(ratio > 0 && ratio <= 1)) {
    throw std::invalid_argument(
        fmt::format("topk: the ratio must be above 0 and at most 1, got {}", ratio));
  }
  return [hook = std::make_shared<TopKHook>(ratio)](ProcessGroup& group,
                                                    const GradientBucket& bucket) {
    CheckGradients("topk", bucket);
    return hook->Send(group, bucket);
  };
}

}  // namespace ddp
