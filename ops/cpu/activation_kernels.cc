#include "ops/cpu/activation_kernels.h"

#include "ops/cpu/kernel_element.h"
#include "ops/cpu/kernel_math.h"
#include "ops/cpu/kernel_random.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// An activation is two functions of elements: y = Value(x, parameter), and dx = Gradient(kept, dy,
// parameter) with what NeedsOutput says of x and y.

// The comparison is false for NaN, which so stays.
struct Relu {
  template <class C>
  static C Value(C x, C) {
    return x < 0 ? 0 : x;
  }
  template <class C>
  static C Gradient(C y, C dy, C) {
    return y <= 0 ? 0 : dy;
  }
};

struct LeakyRelu {
  template <class C>
  static C Value(C x, C negative_slope) {
    return x > 0 ? x : negative_slope * x;
  }
  template <class C>
  static C Gradient(C x, C dy, C negative_slope) {
    return x > 0 ? dy : negative_slope * dy;
  }
};

struct Gelu {
  template <class C>
  static C Value(C x, C) {
    return x * Normal(x).probability;
  }
  template <class C>
  static C Gradient(C x, C dy, C) {
    const NormalDistribution<C> normal = Normal(x);
    return dy * (normal.probability + x * normal.density);
  }
};

// (1 + tanh(u)) / 2 is sigmoid(2 u).
struct GeluTanh {
  template <class C>
  static C Value(C x, C) {
    return x * Sigmoid(x * (kLinear<C> + kCubic<C> * (x * x)));
  }
  template <class C>
  static C Gradient(C x, C dy, C) {
    const C square = x * x;
    const C sigmoid = Sigmoid(x * (kLinear<C> + kCubic<C> * square));
    const C slope = kLinear<C> + 3 * kCubic<C> * square;
    return dy * (sigmoid + x * (sigmoid * (1 - sigmoid)) * slope);
  }

  template <class C>
  static constexpr C kLinear = static_cast<C>(1.59576912160573071);  // 2 sqrt(2 / pi)
  template <class C>
  static constexpr C kCubic = static_cast<C>(0.044715 * 1.59576912160573071);
};

struct SigmoidOp {
  template <class C>
  static C Value(C x, C) {
    return Sigmoid(x);
  }
  template <class C>
  static C Gradient(C y, C dy, C) {
    return dy * (y * (1 - y));
  }
};

struct TanhOp {
  template <class C>
  static C Value(C x, C) {
    return Tanh(x);
  }
  template <class C>
  static C Gradient(C y, C dy, C) {
    return dy * (1 - y * y);
  }
};

struct Silu {
  template <class C>
  static C Value(C x, C = 0) {
    return x / (1 + Exp(-x));
  }
  template <class C>
  static C Gradient(C x, C dy, C = 0) {
    const C sigmoid = Sigmoid(x);
    return dy * (sigmoid * (1 + x * (1 - sigmoid)));
  }
};

// y[i] = f(i), or y[i] += f(i).
template <class T, class F>
[[gnu::always_inline]] inline void Write(T* y, int64_t n, bool accumulate, F f) {
  if (accumulate) {
    ForEach(n, [=](int64_t i) { y[i] = Round<T>(Load(y[i]) + f(i)); });
  } else {
    ForEach(n, [=](int64_t i) { y[i] = Round<T>(f(i)); });
  }
}

template <class T, class Op>
void Forward(const void* x, double parameter, void* y, int64_t n) {
  const T* from = static_cast<const T*>(x);
  const auto scalar = static_cast<Compute<T>>(parameter);
  Write(static_cast<T*>(y), n, false, [=](int64_t i) { return Op::Value(Load(from[i]), scalar); });
}

template <class T, class Op>
void Backward(const void* kept, const void* dy, double parameter, void* dx, int64_t n,
              bool accumulate) {
  const T* from = static_cast<const T*>(kept);
  const T* arriving = static_cast<const T*>(dy);
  const auto scalar = static_cast<Compute<T>>(parameter);
  Write(static_cast<T*>(dx), n, accumulate,
        [=](int64_t i) { return Op::Gradient(Load(from[i]), Load(arriving[i]), scalar); });
}

template <class T>
void AddRelu(const void* a, const void* b, void* y, int64_t n) {
  const T* pa = static_cast<const T*>(a);
  const T* pb = static_cast<const T*>(b);
  Write(static_cast<T*>(y), n, false, [=](int64_t i) {
    const Compute<T> sum = Load(pa[i]) + Load(pb[i]);
    return Relu::Value<Compute<T>>(sum, 0);
  });
}

template <class T>
void SwiGlu(const void* gate, const void* up, void* y, int64_t n, bool accumulate) {
  const T* pgate = static_cast<const T*>(gate);
  const T* pup = static_cast<const T*>(up);
  Write(static_cast<T*>(y), n, accumulate,
        [=](int64_t i) { return Silu::Value(Load(pgate[i])) * Load(pup[i]); });
}

template <class T>
void SwiGluGate(const void* gate, const void* up, const void* dy, void* dgate, int64_t n,
                bool accumulate) {
  const T* pgate = static_cast<const T*>(gate);
  const T* pup = static_cast<const T*>(up);
  const T* arriving = static_cast<const T*>(dy);
  Write(static_cast<T*>(dgate), n, accumulate, [=](int64_t i) {
    return Silu::Gradient(Load(pgate[i]), Load(arriving[i]) * Load(pup[i]));
  });
}

// A dropped element is x times 0: NaN shows, as in PyTorch.
template <class T>
void Dropout(const void* x, const DropoutDraw& draw, void* y, int64_t n, bool accumulate) {
  using C = Compute<T>;
  const auto factor = static_cast<C>(draw.factor);
  const uint64_t threshold = draw.threshold;
  const auto lead = static_cast<int64_t>(draw.position % 4);  // words before the first element's
  for (int64_t begin = -lead; begin < n; begin += kRandomWords) {
    alignas(kVectorBytes) uint32_t words[kRandomWords];
    DrawWords(draw.seed, draw.step, (draw.position + static_cast<uint64_t>(begin)) / 4, words);
    const int64_t first = begin < 0 ? 0 : begin;
    const int64_t count = (n < begin + kRandomWords ? n : begin + kRandomWords) - first;
    const uint32_t* const own = words + (first - begin);
    const T* const from = static_cast<const T*>(x) + first;
    Write(static_cast<T*>(y) + first, count, accumulate,
          [=](int64_t i) { return Load(from[i]) * (own[i] >= threshold ? factor : C(0)); });
  }
}

template <class T>
constexpr ActivationKernels KernelsOf() {
  return {
      .forward = {Forward<T, Relu>, Forward<T, LeakyRelu>, Forward<T, Gelu>, Forward<T, GeluTanh>,
                  Forward<T, SigmoidOp>, Forward<T, TanhOp>, Forward<T, Silu>},
      .backward = {Backward<T, Relu>, Backward<T, LeakyRelu>, Backward<T, Gelu>,
                   Backward<T, GeluTanh>, Backward<T, SigmoidOp>, Backward<T, TanhOp>,
                   Backward<T, Silu>},
      .add_relu = AddRelu<T>,
      .swiglu = SwiGlu<T>,
      .swiglu_gate = SwiGluGate<T>,
      .dropout = Dropout<T>,
  };
}

}  // namespace

constinit const ActivationKernels kActivationKernels[kNumFloatingDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
