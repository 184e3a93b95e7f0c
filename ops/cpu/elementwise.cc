#include "ops/cpu/elementwise.h"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <type_traits>

namespace ops::cpu {
namespace {

template <class T>
using Arithmetic = std::conditional_t<std::is_class_v<T>, float, T>;

template <class T>
T Apply(BinaryOp op, T a, T b) {
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSubtract:
      return a - b;
    case BinaryOp::kMultiply:
      return a * b;
    case BinaryOp::kDivide:
      if constexpr (std::is_integral_v<T>) {
        if (b == 0) throw std::invalid_argument("Divide: integer division by zero");
        if (b == T(-1)) return std::is_signed_v<T> ? T(0) - a : a / b;
      }
      return a / b;
  }
  return a;
}

int64_t OffsetIn(const Shape& operand, const Shape& out, int64_t index) {
  int64_t offset = 0, stride = 1;
  for (int i = -1; i >= -out.rank(); --i) {
    const int64_t coordinate = index % out.dim(i);
    index /= out.dim(i);
    if (-i > operand.rank()) continue;
    if (operand.dim(i) != 1) offset += coordinate * stride;
    stride *= operand.dim(i);
  }
  return offset;
}

template <class F>
void ForFloating(const Tensor& x, F&& f) {
  Dispatch(x.dtype(), [&]<class T>() { f.template operator()<T, Arithmetic<T>>(); });
}

}  // namespace

void Binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& out) {
  ForFloating(out, [&]<class T, class A>() {
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      out.data<T>()[i] = T(Apply<A>(op, A(a.data<T>()[OffsetIn(a.shape(), out.shape(), i)]),
                                    A(b.data<T>()[OffsetIn(b.shape(), out.shape(), i)])));
    }
  });
}

void Scale(double factor, const Tensor& x, const Tensor& out, bool accumulate) {
  ForFloating(out, [&]<class T, class A>() {
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      const A scaled = A(x.data<T>()[i]) * A(factor);
      out.data<T>()[i] = T(accumulate ? A(out.data<T>()[i]) + scaled : scaled);
    }
  });
}

void AddScalar(double value, const Tensor& x, const Tensor& out) {
  ForFloating(out, [&]<class T, class A>() {
    for (int64_t i = 0; i < out.num_elements(); ++i)
      out.data<T>()[i] = T(A(x.data<T>()[i]) + A(value));
  });
}

void Relu(const Tensor& x, const Tensor& out) {
  ForFloating(out, [&]<class T, class A>() {
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      const A value = A(x.data<T>()[i]);
      out.data<T>()[i] = T(value < A(0) ? A(0) : value);
    }
  });
}

void ReluBackward(const Tensor& y, const Tensor& dy, const Tensor& dx, bool accumulate) {
  ForFloating(dx, [&]<class T, class A>() {
    for (int64_t i = 0; i < dx.num_elements(); ++i) {
      const A gradient = A(y.data<T>()[i]) > A(0) ? A(dy.data<T>()[i]) : A(0);
      dx.data<T>()[i] = T(accumulate ? A(dx.data<T>()[i]) + gradient : gradient);
    }
  });
}

void BroadcastRow(const Tensor& bias, const Tensor& out) {
  const int64_t n = bias.num_elements();
  Dispatch(out.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < out.num_elements(); ++i) out.data<T>()[i] = bias.data<T>()[i % n];
  });
}

}  // namespace ops::cpu
