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

constexpr int64_t kChunk = 32768;  // elements of the squared error
constexpr int64_t kLogits = 8192;  // elements of the cross-entropy, which work harder

template <class T>
const LossKernels<T>& Kernels() {
  const LossKernelTable& table =
      ForIsa(baseline::kLossKernels, avx2::kLossKernels, avx512::kLossKernels);
  if constexpr (std::is_same_v<T, float>) {
    return table.float32;
  } else {
    return table.float64;
  }
}

int64_t RowsPerChunk(int64_t classes) {
  return std::max<int64_t>(1, kLogits / std::max<int64_t>(1, classes));
}

void CheckTargets(const Tensor& targets, int64_t classes) {
  const auto values = targets.elements<int64_t>();
  const auto wrong = std::ranges::find_if(values, [=](int64_t v) { return v < 0 || v >= classes; });
  if (wrong == values.end()) return;
  throw std::invalid_argument(
      fmt::format("cross-entropy: the target of row {} is {}, expected a class in [0, {})",
                  wrong - values.begin(), *wrong, classes));
}

}  // namespace

void MseForward(const Tensor& x, const Tensor& target, const Tensor& loss) {
  DispatchFloat("MseLoss", x.dtype(), [&]<class T>() {
    const auto kernel = Kernels<T>().squared_error;
    const T *px = x.data<T>(), *pt = target.data<T>();
    const int64_t n = x.num_elements();
    const double sum = ParallelSum(n, kChunk, [&](int64_t begin, int64_t end) {
      return kernel(px + begin, pt + begin, end - begin);
    });
    *loss.data<T>() = static_cast<T>(sum / static_cast<double>(n));
  });
}

void MseBackward(const Tensor& x, const Tensor& target, const Tensor& dloss, const Tensor& dx,
                 bool accumulate) {
  DispatchFloat("MseLoss", x.dtype(), [&]<class T>() {
    const auto kernel = Kernels<T>().squared_error_backward;
    const T *px = x.data<T>(), *pt = target.data<T>();
    T* pdx = dx.data<T>();
    const int64_t n = x.num_elements();
    const T factor = static_cast<T>(2.0 * *dloss.data<T>() / static_cast<double>(n));
    ParallelFor(n, kChunk, [&](int64_t begin, int64_t end) {
      kernel(px + begin, pt + begin, factor, pdx + begin, end - begin, accumulate);
    });
  });
}

void CrossEntropyForward(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                         const Tensor& log_sums) {
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
  CheckTargets(targets, classes);
  DispatchFloat("CrossEntropyLoss", logits.dtype(), [&]<class T>() {
    const auto kernel = Kernels<T>().cross_entropy;
    const T* pl = logits.data<T>();
    const int64_t* pt = targets.data<int64_t>();
    T* pn = log_sums.data<T>();
    const double sum = ParallelSum(batch, RowsPerChunk(classes), [&](int64_t begin, int64_t end) {
      return kernel(pl + begin * classes, pt + begin, end - begin, classes, pn + begin);
    });
    *loss.data<T>() = static_cast<T>(sum / static_cast<double>(batch));
  });
}

void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_sums,
                          const Tensor& dloss, const Tensor& dlogits, bool accumulate) {
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
  DispatchFloat("CrossEntropyLoss", logits.dtype(), [&]<class T>() {
    const auto kernel = Kernels<T>().cross_entropy_backward;
    const T *pl = logits.data<T>(), *pn = log_sums.data<T>();
    const int64_t* pt = targets.data<int64_t>();
    T* pd = dlogits.data<T>();
    const T factor = static_cast<T>(*dloss.data<T>() / static_cast<double>(batch));
    ParallelFor(batch, RowsPerChunk(classes), [&](int64_t begin, int64_t end) {
      kernel(pl + begin * classes, pt + begin, pn + begin, end - begin, classes, factor,
             pd + begin * classes, accumulate);
    });
  });
}

int64_t CountCorrect(const Tensor& logits, const Tensor& targets) {
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
  CheckTargets(targets, classes);
  return DispatchFloat("CountCorrect", logits.dtype(), [&]<class T>() {
    int64_t correct = 0;
    for (int64_t i = 0; i < batch; ++i) {
      const T* row = logits.data<T>() + i * classes;
      correct += std::max_element(row, row + classes) - row == targets.data<int64_t>()[i];
    }
    return correct;
  });
}

}  // namespace ops::cpu
