#include "ops/cpu/elementwise_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// Integers wrap around, so they are calculated without sign.
template <class C, bool = std::is_integral_v<C>>
struct WrappingType {
  using type = C;
};
template <class C>
struct WrappingType<C, true> {
  using type = std::make_unsigned_t<C>;
};
template <class C>
using Wrapping = typename WrappingType<C>::type;

struct Add {
  template <class C>
  static C Apply(C a, C b) {
    return static_cast<C>(Wrapping<C>(a) + Wrapping<C>(b));
  }
};

struct Subtract {
  template <class C>
  static C Apply(C a, C b) {
    return static_cast<C>(Wrapping<C>(a) - Wrapping<C>(b));
  }
};

struct Multiply {
  template <class C>
  static C Apply(C a, C b) {
    return static_cast<C>(Wrapping<C>(a) * Wrapping<C>(b));
  }
};

// The CPU traps when the quotient of the smallest integer and -1 doesn't fit; here it wraps.
struct Divide {
  template <class C>
  static C Apply(C a, C b) {
    if constexpr (std::is_integral_v<C> && std::is_signed_v<C>) {
      return b == -1 ? Subtract::Apply<C>(0, a) : static_cast<C>(a / b);
    } else {
      return static_cast<C>(a / b);
    }
  }
};

// Comparisons give 1 or 0; with NaN they are false, but for NotEqual.
struct Equal {
  template <class C>
  static uint8_t Apply(C a, C b) {
    return a == b;
  }
};

struct NotEqual {
  template <class C>
  static uint8_t Apply(C a, C b) {
    return a != b;
  }
};

struct Less {
  template <class C>
  static uint8_t Apply(C a, C b) {
    return a < b;
  }
};

struct LessEqual {
  template <class C>
  static uint8_t Apply(C a, C b) {
    return a <= b;
  }
};

// T op T gives Out, rounded once.
template <class T, class Op, class Out = T>
void VectorVector(const void* a, const void* b, void* out, int64_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  Out* z = static_cast<Out*>(out);
  ForEach(n, [=](int64_t i) { z[i] = Round<Out>(Op::Apply(Load(x[i]), Load(y[i]))); });
}

template <class T, class Op, class Out = T>
void VectorScalar(const void* a, const void* b, void* out, int64_t n) {
  const T* x = static_cast<const T*>(a);
  const Compute<T> y = Load(*static_cast<const T*>(b));
  Out* z = static_cast<Out*>(out);
  ForEach(n, [=](int64_t i) { z[i] = Round<Out>(Op::Apply(Load(x[i]), y)); });
}

template <class T, class Op, class Out = T>
void ScalarVector(const void* a, const void* b, void* out, int64_t n) {
  const Compute<T> x = Load(*static_cast<const T*>(a));
  const T* y = static_cast<const T*>(b);
  Out* z = static_cast<Out*>(out);
  ForEach(n, [=](int64_t i) { z[i] = Round<Out>(Op::Apply(x, Load(y[i]))); });
}

template <class T>
void Scale(const void* x, double scalar, void* out, int64_t n) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const Compute<T> factor = static_cast<Compute<T>>(scalar);
  ForEach(n, [=](int64_t i) { to[i] = Round<T>(factor * Load(from[i])); });
}

template <class T>
void AddScaled(const void* x, double scalar, void* out, int64_t n) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const Compute<T> factor = static_cast<Compute<T>>(scalar);
  ForEach(n, [=](int64_t i) { to[i] = Round<T>(Load(to[i]) + factor * Load(from[i])); });
}

template <class T>
void AddScalar(const void* x, double scalar, void* out, int64_t n) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const Compute<T> value = static_cast<Compute<T>>(scalar);
  ForEach(n, [=](int64_t i) { to[i] = Round<T>(Load(from[i]) + value); });
}

// Comparisons are false for NaN, which so stays.
template <class T>
void Clamp(const void* x, double low, double high, void* out, int64_t n) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const Compute<T> lowest = static_cast<Compute<T>>(low);
  const Compute<T> highest = static_cast<Compute<T>>(high);
  ForEach(n, [=](int64_t i) {
    const Compute<T> value = Load(from[i]);
    const Compute<T> raised = value < lowest ? lowest : value;
    to[i] = Round<T>(raised > highest ? highest : raised);
  });
}

template <class T, Operands kOperands>
void Select(const uint8_t* condition, const void* a, const void* b, void* out, int64_t n) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* z = static_cast<T*>(out);
  constexpr int64_t kXStep = kOperands == Operands::kScalarVector ? 0 : 1;
  constexpr int64_t kYStep = kOperands == Operands::kVectorScalar ? 0 : 1;
  ForEach(n, [=](int64_t i) {
    const T chosen = x[i * kXStep], other = y[i * kYStep];
    z[i] = condition[i] != 0 ? chosen : other;
  });
}

template <class From, class To>
void Cast(const void* x, void* out, int64_t n) {
  const From* from = static_cast<const From*>(x);
  To* to = static_cast<To*>(out);
  ForEach(n, [=](int64_t i) { to[i] = Round<To>(static_cast<Compute<To>>(Load(from[i]))); });
}

template <class T>
constexpr ElementwiseKernels IntegerKernels() {
  return {
      .binary = {{VectorVector<T, Add>, VectorScalar<T, Add>, ScalarVector<T, Add>},
                 {VectorVector<T, Subtract>, VectorScalar<T, Subtract>, ScalarVector<T, Subtract>},
                 {VectorVector<T, Multiply>, VectorScalar<T, Multiply>, ScalarVector<T, Multiply>},
                 {VectorVector<T, Divide>, VectorScalar<T, Divide>, ScalarVector<T, Divide>}},
      .compare = {{VectorVector<T, Equal, uint8_t>, VectorScalar<T, Equal, uint8_t>,
                   ScalarVector<T, Equal, uint8_t>},
                  {VectorVector<T, NotEqual, uint8_t>, VectorScalar<T, NotEqual, uint8_t>,
                   ScalarVector<T, NotEqual, uint8_t>},
                  {VectorVector<T, Less, uint8_t>, VectorScalar<T, Less, uint8_t>,
                   ScalarVector<T, Less, uint8_t>},
                  {VectorVector<T, LessEqual, uint8_t>, VectorScalar<T, LessEqual, uint8_t>,
                   ScalarVector<T, LessEqual, uint8_t>}},
      .select = {Select<T, Operands::kVectorVector>, Select<T, Operands::kVectorScalar>,
                 Select<T, Operands::kScalarVector>},
      .scale = nullptr,
      .add_scaled = nullptr,
      .add_scalar = nullptr,
      .clamp = nullptr,
      .cast = {},
  };
}

template <class T>
constexpr ElementwiseKernels FloatingKernels() {
  ElementwiseKernels kernels = IntegerKernels<T>();
  kernels.scale = Scale<T>;
  kernels.add_scaled = AddScaled<T>;
  kernels.add_scalar = AddScalar<T>;
  kernels.clamp = Clamp<T>;
  kernels.cast[0] = Cast<T, float>;
  kernels.cast[1] = Cast<T, double>;
  kernels.cast[2] = Cast<T, BFloat16>;
  kernels.cast[3] = Cast<T, Float16>;
  return kernels;
}

}  // namespace

constinit const ElementwiseKernels kElementwiseKernels[kNumDTypes] = {
    FloatingKernels<float>(),   FloatingKernels<double>(), FloatingKernels<BFloat16>(),
    FloatingKernels<Float16>(), IntegerKernels<int64_t>(), IntegerKernels<int32_t>(),
    IntegerKernels<uint8_t>(),
};

}  // namespace ops::cpu::OPS_CPU_ISA
