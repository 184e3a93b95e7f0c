#include "ops/cpu/reduce.h"

#include <cmath>
#include <vector>

namespace ops::cpu {
namespace {

template <class T>
double ToDouble(T x) {
  return static_cast<double>(x);
}
double ToDouble(BFloat16 x) { return static_cast<float>(x); }
double ToDouble(Float16 x) { return static_cast<float>(x); }

template <class T>
T FromDouble(double x) {
  if constexpr (std::is_class_v<T>) {
    return T(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

int64_t OffsetIn(const Shape& operand, const Shape& full, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = -1; i >= -full.rank(); --i) {
    const int64_t coordinate = index % full.dim(i);
    index /= full.dim(i);
    if (-i > operand.rank()) continue;
    if (operand.dim(i) != 1) offset += coordinate * stride;
    stride *= operand.dim(i);
  }
  return offset;
}

}  // namespace

void SumTo(const Tensor& x, const Tensor& out, bool accumulate) {
  Dispatch(x.dtype(), [&]<class T>() {
    std::vector<double> sums(out.num_elements());
    for (int64_t i = 0; i < x.num_elements(); ++i)
      sums[OffsetIn(out.shape(), x.shape(), i)] += ToDouble(x.data<T>()[i]);
    for (int64_t i = 0; i < out.num_elements(); ++i)
      out.data<T>()[i] = FromDouble<T>(accumulate ? ToDouble(out.data<T>()[i]) + sums[i] : sums[i]);
  });
}

double SumOfSquares(const Tensor& x) {
  double sum = 0;
  Dispatch(x.dtype(), [&]<class T>() {
    for (const T& value : x.elements<T>()) sum += ToDouble(value) * ToDouble(value);
  });
  return sum;
}

bool AllFinite(const Tensor& x) {
  bool finite = true;
  Dispatch(x.dtype(), [&]<class T>() {
    for (const T& value : x.elements<T>()) finite &= std::isfinite(ToDouble(value));
  });
  return finite;
}

}  // namespace ops::cpu
