#include "ddp/replicated/hooks/compress.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

using ops::Tensor;

// The bucket with its gradients converted.
GradientBucket Convert(const GradientBucket& bucket, ops::DType dtype) {
  GradientBucket converted = bucket;
  converted.gradients = bucket.gradients.To(dtype);
  const Tensor& whole = converted.gradients;
  for (ops::NamedTensor& part : converted.parts) {
    const int64_t offset = (part.tensor.raw_data() - bucket.gradients.raw_data()) /
                           ops::SizeOf(bucket.gradients.dtype());
    part.tensor =
        whole.Slice(offset, offset + part.tensor.num_elements()).View(part.tensor.shape());
  }
  return converted;
}

}  // namespace

CommunicationHook CompressTo(ops::DType dtype, CommunicationHook inner) {
  if (dtype != ops::DType::kFloat16 && dtype != ops::DType::kBFloat16) {
    throw std::invalid_argument(
        fmt::format("gradients can be compressed to float16 or bfloat16, not {}", Name(dtype)));
  }
  return [dtype, inner = std::move(inner)](ProcessGroup& group, const GradientBucket& bucket) {
    CheckGradients(Name(dtype), bucket);
    if (SizeOf(bucket.gradients.dtype()) <= SizeOf(dtype)) return inner(group, bucket);
    const GradientBucket small = Convert(bucket, dtype);
    return Then(inner(group, small),
                [small, gradients = bucket.gradients] { gradients.CopyFrom(small.gradients); });
  };
}

}  // namespace ddp
