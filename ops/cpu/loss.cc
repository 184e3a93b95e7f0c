#include "ops/cpu/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace ops::cpu {

void MseForward(const Tensor& x, const Tensor& target, const Tensor& loss) {
  DispatchFloat("MseLoss", x.dtype(), [&]<class T>() {
    double sum = 0;
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const double difference = x.data<T>()[i] - target.data<T>()[i];
      sum += difference * difference;
    }
    *loss.data<T>() = static_cast<T>(sum / static_cast<double>(x.num_elements()));
  });
}

void MseBackward(const Tensor& x, const Tensor& target, const Tensor& dloss, const Tensor& dx,
                 bool accumulate) {
  DispatchFloat("MseLoss", x.dtype(), [&]<class T>() {
    const T factor = static_cast<T>(2.0 * *dloss.data<T>() / static_cast<double>(x.num_elements()));
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      const T gradient = factor * (x.data<T>()[i] - target.data<T>()[i]);
      dx.data<T>()[i] = accumulate ? dx.data<T>()[i] + gradient : gradient;
    }
  });
}

void CrossEntropyForward(const Tensor& logits, const Tensor& targets, const Tensor& loss,
                         const Tensor& log_normalizer) {
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
  const int64_t* target = targets.data<int64_t>();
  for (int64_t i = 0; i < batch; ++i) {
    if (target[i] < 0 || target[i] >= classes) {
      throw std::invalid_argument(fmt::format(
          "cross-entropy: target {} of row {} is not a class in [0, {})", target[i], i, classes));
    }
  }
  DispatchFloat("CrossEntropyLoss", logits.dtype(), [&]<class T>() {
    double total = 0;
    for (int64_t i = 0; i < batch; ++i) {
      const T* row = logits.data<T>() + i * classes;
      const T largest = *std::max_element(row, row + classes);
      double sum = 0;
      for (int64_t j = 0; j < classes; ++j) sum += std::exp(row[j] - largest);
      log_normalizer.data<T>()[i] = static_cast<T>(largest + std::log(sum));
      total += log_normalizer.data<T>()[i] - row[target[i]];
    }
    *loss.data<T>() = static_cast<T>(total / static_cast<double>(batch));
  });
}

void CrossEntropyBackward(const Tensor& logits, const Tensor& targets, const Tensor& log_normalizer,
                          const Tensor& dloss, const Tensor& dlogits, bool accumulate) {
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
  DispatchFloat("CrossEntropyLoss", logits.dtype(), [&]<class T>() {
    const T factor = *dloss.data<T>() / static_cast<T>(batch);
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t j = 0; j < classes; ++j) {
        const int64_t at = i * classes + j;
        const T p = std::exp(logits.data<T>()[at] - log_normalizer.data<T>()[i]);
        const T gradient = factor * (p - (j == targets.data<int64_t>()[i]));
        dlogits.data<T>()[at] = accumulate ? dlogits.data<T>()[at] + gradient : gradient;
      }
    }
  });
}

int64_t CountCorrect(const Tensor& logits, const Tensor& targets) {
  const int64_t batch = logits.dim(0), classes = logits.dim(1);
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
