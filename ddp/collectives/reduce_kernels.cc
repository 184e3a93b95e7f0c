#include "ddp/collectives/reduce_kernels.h"

#include <emmintrin.h>

#include <type_traits>

#include "ops/cpu/kernel_element.h"

namespace ddp::OPS_CPU_ISA {
namespace {

namespace element = ops::cpu::OPS_CPU_ISA;
using ops::BFloat16;
using ops::Float16;

// The accumulator of an average of int64: high * 2^32 + low. Sums of highs and of lows are one too.
struct WideInteger {
  int64_t high;
  int64_t low;
};

// What an element or an accumulator is calculated with.
template <class T>
struct ValueOf {
  using Type = element::Compute<T>;
};
template <>
struct ValueOf<WideInteger> {
  using Type = __int128;
};
template <class T>
using Value = typename ValueOf<T>::Type;

template <class T>
inline Value<T> Read(T x) {
  return element::Load(x);
}
inline __int128 Read(WideInteger x) { return (__int128{x.high} << 32) + x.low; }

// `x` as a T: rounded for floating point, truncated for integers.
template <class T>
struct Written {
  template <class V>
  static T From(V x) {
    return element::Round<T>(static_cast<Value<T>>(x));
  }
};
template <>
struct Written<uint8_t> {
  static uint8_t From(uint8_t x) { return x; }
  static uint8_t From(double x) { return static_cast<uint8_t>(static_cast<int32_t>(x)); }
};
template <>
struct Written<WideInteger> {
  static WideInteger From(__int128 x) {
    return {static_cast<int64_t>(x >> 32), static_cast<int64_t>(x & 0xffffffff)};
  }
};

// Operations. Sums and products of integers wrap.

struct Plus {
  template <class V>
  static V Of(V a, V b) {
    return a + b;
  }
  static int64_t Of(int64_t a, int64_t b) { return uint64_t(a) + uint64_t(b); }
  static int32_t Of(int32_t a, int32_t b) { return uint32_t(a) + uint32_t(b); }
};

struct Times {
  template <class V>
  static V Of(V a, V b) {
    return a * b;
  }
  static int64_t Of(int64_t a, int64_t b) { return uint64_t(a) * uint64_t(b); }
  static int32_t Of(int32_t a, int32_t b) { return uint32_t(a) * uint32_t(b); }
};

// a != a is true for NaN only; a comparison with NaN is false, which picks b. Of +0 and -0 the
// first stays.
struct Smaller {
  template <class V>
  static V Of(V a, V b) {
    return (a <= b) | (a != a) ? a : b;
  }
};

struct Larger {
  template <class V>
  static V Of(V a, V b) {
    return (a >= b) | (a != a) ? a : b;
  }
};

struct And {
  template <class V>
  static V Of(V a, V b) {
    return a & b;
  }
};

struct Or {
  template <class V>
  static V Of(V a, V b) {
    return a | b;
  }
};

struct Xor {
  template <class V>
  static V Of(V a, V b) {
    return a ^ b;
  }
};

// What to do with elements of type T: how they are combined, and in what they are accumulated.
template <class T, class C>
struct OperationOn {
  using Element = T;
  using Combine = C;
  using Accumulator = T;  // min, max, bits: nothing is ever rounded
  static constexpr bool kAverages = false;
};

template <class T, class C>
struct ArithmeticOn : OperationOn<T, C> {
  using Accumulator = element::Compute<T>;
};

template <class T>
struct AverageAccumulator {
  using Type = element::Compute<T>;
};
// float64 holds the sum of 2^21 of them exactly, and a quotient never rounds up to an integer.
template <>
struct AverageAccumulator<int32_t> {
  using Type = double;
};
template <>
struct AverageAccumulator<uint8_t> {
  using Type = double;
};
template <>
struct AverageAccumulator<int64_t> {
  using Type = WideInteger;
};

template <class T>
struct AverageOf : OperationOn<T, Plus> {
  using Accumulator = typename AverageAccumulator<T>::Type;
  static constexpr bool kAverages = true;
};

// What becomes of a value when all is in it.

struct Same {
  template <class V>
  V operator()(V x) const {
    return x;
  }
};

template <class V>
struct MultiplyBy {
  V factor;
  V operator()(V x) const { return x * factor; }
};

template <class V>
struct DivideBy {
  V divisor;
  V operator()(V x) const { return x / divisor; }
};
template <>
struct DivideBy<__int128> {
  int64_t divisor;
  __int128 operator()(__int128 x) const {
    const int64_t narrow = static_cast<int64_t>(x);
    return narrow == x ? narrow / divisor : x / divisor;
  }
};

// f(what makes an average of a sum over n ranks). Dividing by a power of two is multiplying by its
// reciprocal, which is faster and gives the same.
template <class V, class F>
[[gnu::always_inline]] inline void WithAverage(int64_t n, F f) {
  if constexpr (!std::is_same_v<V, __int128>) {
    if ((n & (n - 1)) == 0) return f(MultiplyBy<V>{1 / static_cast<V>(n)});
  }
  f(DivideBy<V>{static_cast<decltype(DivideBy<V>::divisor)>(n)});
}

// Elements at a time: what is kept of them in between stays in the first-level cache.
constexpr int64_t kTile = 1024;

// f(begin, size) for all tiles of n elements.
template <class F>
[[gnu::always_inline]] inline void ForEachTile(int64_t n, F f) {
  for (int64_t begin = 0; begin < n; begin += kTile) {
    f(begin, n - begin < kTile ? n - begin : kTile);
  }
}

// The exponent of infinity and NaN is all ones: one more carries into the sign.
inline uint32_t SignIfNotFinite(float x) {
  return (__builtin_bit_cast(uint32_t, x) & 0x7f800000u) + 0x00800000u;
}
inline uint64_t SignIfNotFinite(double x) {
  return (__builtin_bit_cast(uint64_t, x) & 0x7ff0000000000000u) + 0x0010000000000000u;
}

enum class Check { kNothing, kFinite };

// to[i] = end(value(i)) for i < size. Returns false if one of them isn't finite, where that is
// checked.
template <Check kCheck, class To, class F, class End>
[[gnu::always_inline]] inline bool Store(int64_t size, To* to, F value, End end) {
  if constexpr (kCheck == Check::kNothing) {
    element::ForEach(size, [=](int64_t i) { to[i] = Written<To>::From(end(value(i))); });
    return true;
  } else {
    decltype(SignIfNotFinite(value(0))) signs = 0;
#pragma GCC ivdep
    for (int64_t i = 0; i < size; ++i) {
      const auto x = end(value(i));
      to[i] = Written<To>::From(x);
      signs |= SignIfNotFinite(x);
    }
    return signs >> (8 * sizeof(signs) - 1) == 0;
  }
}

// values[i] = values[i] op x[i]. (Inlined into a loop, GCC would not vectorise it.)
template <class Combine, class T, class V>
[[gnu::noinline]] void FoldInto(V* values, const T* x, int64_t size) {
  element::ForEach(
      size, [=](int64_t i) { values[i] = Combine::Of(values[i], static_cast<V>(Read(x[i]))); });
}

// to[i] = end(first[i] op inputs[0][begin + i] op inputs[1][begin + i] ...) for i < size <= kTile,
// with values of type V. Returns as Store does.
template <class Combine, class V, class T, Check kCheck, class First, class To, class End>
[[gnu::noinline]] bool FoldTile(const First* first, const void* const* inputs, int64_t num_inputs,
                                int64_t begin, int64_t size, To* to, End end) {
  const auto start = [=](int64_t i) { return static_cast<V>(Read(first[i])); };
  if (num_inputs == 0) return Store<kCheck>(size, to, start, end);

  const auto input = [=](int64_t k) { return static_cast<const T*>(inputs[k]) + begin; };
  const T* const second = input(0);
  const auto two = [=](int64_t i) {
    return Combine::Of(start(i), static_cast<V>(Read(second[i])));
  };
  if (num_inputs == 1) return Store<kCheck>(size, to, two, end);

  alignas(64) V values[kTile];
  V* const partial = values;
  Store<Check::kNothing>(size, partial, two, Same());
  for (int64_t k = 1; k < num_inputs - 1; ++k) FoldInto<Combine>(partial, input(k), size);
  const T* const last = input(num_inputs - 1);
  const auto all = [=](int64_t i) {
    return Combine::Of(partial[i], static_cast<V>(Read(last[i])));
  };
  return Store<kCheck>(size, to, all, end);
}

// A type with more exponent, for sums that overflow though their average doesn't.
template <class V>
struct WiderOf {};
template <>
struct WiderOf<float> {
  using Type = double;
};
template <>
struct WiderOf<double> {
  using Type = long double;
};

template <class T, class V>
V Average(const void* const* inputs, int64_t num_inputs, int64_t i) {
  V sum = static_cast<V>(Read(static_cast<const T*>(inputs[0])[i]));
  for (int64_t k = 1; k < num_inputs; ++k) {
    sum += static_cast<V>(Read(static_cast<const T*>(inputs[k])[i]));
  }
  return sum / static_cast<V>(num_inputs);
}

// Computes those averages again that weren't finite; the others keep their bits.
template <class T>
[[gnu::noinline]] void AverageAgain(const void* const* inputs, int64_t num_inputs, int64_t begin,
                                    int64_t size, T* averages) {
  using V = Value<T>;
  for (int64_t i = 0; i < size; ++i) {
    const V average = Average<T, V>(inputs, num_inputs, begin + i);
    if (average - average == 0) continue;
    using Wider = typename WiderOf<V>::Type;
    averages[i] =
        Written<T>::From(static_cast<V>(Average<T, Wider>(inputs, num_inputs, begin + i)));
  }
}

template <class T>
T* At(int64_t i, void* elements) {
  return static_cast<T*>(elements) + i;
}
template <class T>
const T* At(int64_t i, const void* elements) {
  return static_cast<const T*>(elements) + i;
}

// Outputs that are large don't stay in the cache: written past it, they need not be read first.
constexpr int64_t kStreamedBytes = 4 << 20;

bool IsStreamed(const void* const* inputs, int64_t num_inputs, void* const* outputs,
                int64_t num_outputs, int64_t num_bytes) {
  if (num_bytes < kStreamedBytes) return false;
  for (int64_t j = 0; j < num_outputs; ++j) {
    for (int64_t k = 0; k < num_inputs; ++k) {
      if (outputs[j] == inputs[k]) return false;  // read anyway
    }
  }
  return true;
}

void StreamTile(void* to, const void* from, int64_t num_bytes) {
  constexpr int64_t kWidth = sizeof(__m128i);
  const bool aligned = reinterpret_cast<uintptr_t>(to) % kWidth == 0;
  const int64_t num_vectors = aligned ? num_bytes / kWidth : 0;
  __m128i* const y = static_cast<__m128i*>(to);
  const __m128i* const x = static_cast<const __m128i*>(from);
  for (int64_t i = 0; i < num_vectors; ++i) _mm_stream_si128(y + i, x[i]);
  __builtin_memcpy(y + num_vectors, x + num_vectors, num_bytes - num_vectors * kWidth);
}

// f(what becomes of a reduction of n values when all of them are in it).
template <class Operation, class F>
[[gnu::always_inline]] inline void WithEnd(int64_t n, F f) {
  if constexpr (Operation::kAverages) {
    WithAverage<Value<typename Operation::Accumulator>>(n, f);
  } else {
    f(Same());
  }
}

// An output may be an input: what an element needs is read before it is written. Averages are kept
// back until they are known to be right.
template <class Operation>
void Reduce(const void* const* inputs, int64_t num_inputs, void* const* outputs,
            int64_t num_outputs, int64_t n) {
  using T = typename Operation::Element;
  using V = Value<typename Operation::Accumulator>;
  constexpr bool kMayOverflow = Operation::kAverages && std::is_same_v<V, Value<T>>;
  constexpr Check kCheck = kMayOverflow ? Check::kFinite : Check::kNothing;
  const bool stream = IsStreamed(inputs, num_inputs, outputs, num_outputs, n * sizeof(T));
  WithEnd<Operation>(num_inputs, [=](auto end) {
    ForEachTile(n, [=](int64_t begin, int64_t size) {
      alignas(64) T tile[kTile];
      const bool direct = !kMayOverflow && !stream;
      T* const results = direct ? At<T>(begin, outputs[0]) : tile;
      const bool finite = FoldTile<typename Operation::Combine, V, T, kCheck>(
          At<T>(begin, inputs[0]), inputs + 1, num_inputs - 1, begin, size, results, end);
      if constexpr (kMayOverflow) {
        if (!finite) AverageAgain(inputs, num_inputs, begin, size, results);
      }
      for (int64_t k = direct ? 1 : 0; k < num_outputs; ++k) {
        T* const out = At<T>(begin, outputs[k]);
        const int64_t num_bytes = size * sizeof(T);
        if (stream) {
          StreamTile(out, results, num_bytes);
        } else {
          __builtin_memcpy(out, results, num_bytes);
        }
      }
    });
  });
  if (stream) _mm_sfence();
}

template <class T, class Accumulator, class Combine>
void Accumulate(const void* const* inputs, int64_t num_inputs, void* accumulators, bool go_on,
                int64_t n) {
  constexpr auto Fold = [](auto... arguments) {
    FoldTile<Combine, Value<Accumulator>, T, Check::kNothing>(arguments..., Same());
  };
  ForEachTile(n, [=](int64_t begin, int64_t size) {
    Accumulator* const to = At<Accumulator>(begin, accumulators);
    if (go_on) {
      Fold(static_cast<const Accumulator*>(to), inputs, num_inputs, begin, size, to);
    } else {
      Fold(At<T>(begin, inputs[0]), inputs + 1, num_inputs - 1, begin, size, to);
    }
  });
}

template <class Operation>
void Finish(const void* accumulators, int64_t num_ranks, void* out, int64_t n) {
  using T = typename Operation::Element;
  using Accumulator = typename Operation::Accumulator;
  const Accumulator* const from = At<Accumulator>(0, accumulators);
  T* const to = At<T>(0, out);
  WithEnd<Operation>(num_ranks, [=](auto end) {
    Store<Check::kNothing>(
        n, to, [=](int64_t i) { return Read(from[i]); }, end);
  });
}

template <class T>
void Multiply(const void* x, double factor, void* out, int64_t n) {
  const T* const from = static_cast<const T*>(x);
  T* const to = static_cast<T*>(out);
  element::ForEach(n, [=](int64_t i) { to[i] = Written<T>::From(double{Read(from[i])} * factor); });
}

// Tables.

template <class Operation>
constexpr ReduceKernels KernelsOf() {
  using T = typename Operation::Element;
  using Accumulator = typename Operation::Accumulator;
  using Combine = typename Operation::Combine;
  return {Reduce<Operation>, Accumulate<T, Accumulator, Combine>, Finish<Operation>};
}

// Sets a column of the table, in the order of ReduceOp.
template <class T>
constexpr void SetKernels(int dtype, ReduceKernelTable* table) {
  const ReduceKernels sum = KernelsOf<ArithmeticOn<T, Plus>>();
  ReduceKernels of[kNumReduceOps] = {
      sum, KernelsOf<AverageOf<T>>(), KernelsOf<ArithmeticOn<T, Times>>(),
      KernelsOf<OperationOn<T, Smaller>>(), KernelsOf<OperationOn<T, Larger>>()};
  if constexpr (std::is_integral_v<T>) {
    of[5] = KernelsOf<OperationOn<T, And>>();
    of[6] = KernelsOf<OperationOn<T, Or>>();
    of[7] = KernelsOf<OperationOn<T, Xor>>();
  } else {
    of[8] = sum;
    table->multiply[dtype] = Multiply<T>;
  }
  for (int op = 0; op < kNumReduceOps; ++op) table->reduce[op][dtype] = of[op];
}

constexpr ReduceKernelTable MakeTable() {
  ReduceKernelTable table = {};
  SetKernels<float>(0, &table);
  SetKernels<double>(1, &table);
  SetKernels<BFloat16>(2, &table);
  SetKernels<Float16>(3, &table);
  SetKernels<int64_t>(4, &table);
  SetKernels<int32_t>(5, &table);
  SetKernels<uint8_t>(6, &table);
  return table;
}

}  // namespace

constinit const ReduceKernelTable kReduceKernels = MakeTable();

}  // namespace ddp::OPS_CPU_ISA
