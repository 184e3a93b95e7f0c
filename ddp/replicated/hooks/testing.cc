#include "ddp/replicated/hooks/testing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "ops/tensor/random.h"

namespace ddp {

using ops::Tensor;

void CountingGroup::Forget() {
  calls_.clear();
  bytes_sent_ = 0;
}

ProcessGroup::WorkPtr CountingGroup::Issue(Operation operation, Timeout timeout) {
  calls_.push_back(fmt::format("{} {}[{}]", Name(operation.kind), Name(operation.input.dtype),
                               operation.input.num_elements));
  bytes_sent_ += BytesSentBy(operation);
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      return inner_.AllReduce(operation.input, operation.output, operation.reduction, timeout);
    case OperationKind::kAllGather:
      return inner_.AllGather(operation.input, operation.output, operation.output_counts, timeout);
    case OperationKind::kAllToAll:
      return inner_.AllToAll(operation.input, operation.output, operation.input_counts,
                             operation.output_counts, timeout);
    default:
      throw std::logic_error(fmt::format("CountingGroup: {}", Name(operation.kind)));
  }
}

double CountingGroup::BytesSentBy(const Operation& operation) const {
  const double bytes = operation.input.num_bytes();
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      return 2 * bytes * (size() - 1) / size();
    case OperationKind::kAllGather:
      return bytes * (size() - 1);
    case OperationKind::kAllToAll:
      return bytes -
             operation.InputBlock(rank(), size()).num_elements * ops::SizeOf(operation.input.dtype);
    default:
      return 0;
  }
}

GradientBucket MakeBucket(const std::vector<ops::Shape>& shapes, ops::DType dtype, int64_t gap) {
  int64_t num_elements = 0;
  for (const ops::Shape& shape : shapes) num_elements += shape.num_elements() + gap;
  GradientBucket bucket;
  bucket.gradients = Tensor::Zeros({num_elements}, {.dtype = dtype});
  int64_t offset = 0;
  for (const ops::Shape& shape : shapes) {
    const int64_t end = offset + shape.num_elements();
    bucket.parts.push_back({fmt::format("part{}", bucket.parts.size()),
                            bucket.gradients.Slice(offset, end).View(shape)});
    offset = end + gap;
  }
  return bucket;
}

void FillParts(const GradientBucket& bucket, int rank, int step) {
  ops::Generator generator(/*seed=*/step, /*stream=*/rank);
  for (const ops::NamedTensor& part : bucket.parts) {
    generator.FillNormal(part.tensor, 0, bucket.scale);
  }
}

std::vector<double> SumOfParts(const GradientBucket& bucket, int size, int step) {
  std::vector<double> sum(bucket.gradients.num_elements());
  const std::vector<double> before = bucket.gradients.ToVector<double>();
  for (int rank = 0; rank < size; ++rank) {
    FillParts(bucket, rank, step);
    const std::vector<double> values = bucket.gradients.ToVector<double>();
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  bucket.gradients.CopyFrom(Tensor::FromVector(before, bucket.gradients.shape()));
  return sum;
}

bool RanksAgree(ProcessGroup& group, const Tensor& tensor) {
  const std::vector<std::string> all = group.ExchangeBlobs(
      std::string(reinterpret_cast<const char*>(tensor.raw_data()), tensor.num_bytes()));
  return std::all_of(all.begin(), all.end(), [&](const auto& blob) { return blob == all[0]; });
}

double MaxAbs(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double MaxError(const Tensor& tensor, const std::vector<double>& expected) {
  std::vector<double> errors = tensor.ToVector<double>();
  for (size_t i = 0; i < errors.size(); ++i) errors[i] -= expected[i];
  return MaxAbs(errors);
}

}  // namespace ddp
