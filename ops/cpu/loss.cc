#include "ops/cpu/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "ops/cpu/isa.h"
#include "ops/cpu/loss_kernels.h"
#include "ops/cpu/parallel_sum.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunk = 32768;  // elements of an elementwise loss
constexpr int64_t kLogits = 8192;  // elements of the cross-entropy, which work harder

const LossKernels& Kernels(DType dtype) {
  if (!IsFloating(dtype)) {
    throw std::invalid_argument(
        fmt::format("loss: expected a floating point dtype, got {}", Name(dtype)));
  }
  const auto& kernels = ForIsa(baseline::kLossKernels, avx2::kLossKernels, avx512::kLossKernels);
  return kernels[static_cast<int>(dtype)];
}

int64_t RowsPerChunk(int64_t classes) {
  return std::max<int64_t>(1, kLogits / std::max<int64_t>(1, classes));
}

// Element i of a tensor, or of one that may be missing.
std::byte* At(const Tensor& tensor, int64_t i) {
  return tensor.raw_data() + i * SizeOf(tensor.dtype());
}

// Of elements or rows from `begin` on, where dloss has one value or one for each.
LossGradient GradientFrom(const Tensor& dloss, bool one_each, double factor, int64_t begin) {
  if (one_each) return {At(dloss, begin), factor};
  return {nullptr, factor * dloss.Item()};
}

CrossEntropyRows RowsOf(const Tensor& logits, const Tensor& targets, int64_t begin, int64_t end,
                        const CrossEntropyParameters& parameters) {
  return {At(logits, begin * logits.dim(1)),
          targets.data<int64_t>() + begin,
          end - begin,
          logits.dim(1),
          parameters.ignore_index,
          parameters.label_smoothing};
}

}  // namespace

void ElementLossForward(ElementLoss kind, const Tensor& x, const Tensor& target, const Tensor& loss,
                        double factor, double delta) {
  const ElementLossKernels& kernels = Kernels(x.dtype()).element[static_cast<int>(kind)];
  const int64_t n = x.num_elements();
  if (loss.shape() == x.shape() && loss.shape().rank() > 0) {
    return ParallelFor(n, kChunk, [&](int64_t begin, int64_t end) {
      kernels.each(At(x, begin), At(target, begin), delta, At(loss, begin), end - begin);
    });
  }
  const double sum = ParallelSum(n, kChunk, [&](int64_t begin, int64_t end) {
    return kernels.sum(At(x, begin), At(target, begin), delta, end - begin);
  });
  loss.Fill(sum * factor);
}

void ElementLossBackward(ElementLoss kind, const Tensor& x, const Tensor& target,
                         const Tensor& dloss, double factor, const Tensor& dx, bool accumulate,
                         double delta) {
  const auto kernel = Kernels(x.dtype()).element[static_cast<int>(kind)].backward;
  const bool one_each = dloss.shape() == x.shape() && x.shape().rank() > 0;
  ParallelFor(x.num_elements(), kChunk, [&](int64_t begin, int64_t end) {
    kernel(At(x, begin), At(target, begin), delta, GradientFrom(dloss, one_each, factor, begin),
           At(dx, begin), end - begin, accumulate);
  });
}

void CrossEntropyForward(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                         const Tensor& log_sums, double factor,
                         const CrossEntropyParameters& parameters) {
  const auto kernel = Kernels(logits.dtype()).cross_entropy;
  const bool one_each = loss.shape().rank() > 0;
  const auto rows = [&](int64_t begin, int64_t end) {
    return kernel(RowsOf(logits, targets, begin, end, parameters), At(log_sums, begin),
                  one_each ? At(loss, begin) : nullptr);
  };
  const double sum = ParallelSum(logits.dim(0), RowsPerChunk(logits.dim(1)), rows);
  if (!one_each) loss.Fill(sum * factor);
}

void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_sums,
                          const Tensor& dloss, double factor, const Tensor& dlogits,
                          bool accumulate, const CrossEntropyParameters& parameters) {
  const auto kernel = Kernels(logits.dtype()).cross_entropy_backward;
  const bool one_each = dloss.shape().rank() > 0;
  ParallelFor(logits.dim(0), RowsPerChunk(logits.dim(1)), [&](int64_t begin, int64_t end) {
    kernel(RowsOf(logits, targets, begin, end, parameters), At(log_sums, begin),
           GradientFrom(dloss, one_each, factor, begin), At(dlogits, begin * logits.dim(1)),
           accumulate);
  });
}

int64_t CountTargets(const Tensor& targets, int64_t classes, int64_t ignore_index) {
  const auto values = targets.elements<int64_t>();
  int64_t count = 0;
  for (size_t row = 0; row < values.size(); ++row) {
    if (values[row] == ignore_index) continue;
    if (values[row] < 0 || values[row] >= classes) {
      throw std::invalid_argument(fmt::format(
          "cross-entropy: the target of row {} is {}, expected a class in [0, {}), or {} to "
          "ignore the row",
          row, values[row], classes, ignore_index));
    }
    ++count;
  }
  return count;
}

}  // namespace ops::cpu
