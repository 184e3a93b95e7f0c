#include "ddp/collectives/reduce.h"

#include <algorithm>
#include <type_traits>

namespace ddp {
namespace {

using ops::BFloat16;
using ops::Float16;

// Elements at a time: their accumulators stay in the first-level cache.
constexpr int64_t kBlock = 1024;

template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<BFloat16> {
  using type = float;
};
template <>
struct AccumulatorOf<Float16> {
  using type = float;
};
template <>
struct AccumulatorOf<int32_t> {
  using type = int64_t;
};
template <>
struct AccumulatorOf<uint8_t> {
  using type = int32_t;
};
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

struct Plus {
  template <class A>
  A operator()(A a, A b) const {
    if constexpr (std::is_integral_v<A>) {
      using Unsigned = std::make_unsigned_t<A>;  // wraps rather than overflows
      return static_cast<A>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
    } else {
      return a + b;
    }
  }
};

// a != a is true for NaN only; a comparison with NaN is false, which picks b.
struct Smaller {
  template <class A>
  A operator()(A a, A b) const {
    return (a < b || a != a) ? a : b;
  }
};

struct Larger {
  template <class A>
  A operator()(A a, A b) const {
    return (a > b || a != a) ? a : b;
  }
};

template <class T, class Combine>
void ReduceBlock(std::span<const void* const> inputs, int64_t begin, int64_t size, Combine combine,
                 Accumulator<T>* sums) {
  using A = Accumulator<T>;
  const T* first = static_cast<const T*>(inputs[0]) + begin;
  for (int64_t i = 0; i < size; ++i) sums[i] = static_cast<A>(first[i]);
  for (const void* input : inputs.subspan(1)) {
    const T* next = static_cast<const T*>(input) + begin;
    for (int64_t i = 0; i < size; ++i) sums[i] = combine(sums[i], static_cast<A>(next[i]));
  }
}

// A block is read from all inputs before it is written, so the output may be an input.
template <class T, class Combine>
void ReduceAll(std::span<const void* const> inputs, T* output, int64_t num_elements,
               Combine combine, bool average) {
  using A = Accumulator<T>;
  alignas(64) A sums[kBlock];
  const A num_inputs = static_cast<A>(inputs.size());
  for (int64_t begin = 0; begin < num_elements; begin += kBlock) {
    const int64_t size = std::min(kBlock, num_elements - begin);
    ReduceBlock<T>(inputs, begin, size, combine, sums);
    if (average) {
      for (int64_t i = 0; i < size; ++i) sums[i] /= num_inputs;
    }
    for (int64_t i = 0; i < size; ++i) output[begin + i] = static_cast<T>(sums[i]);
  }
}

}  // namespace

void Reduce(ReduceOp op, ops::DType dtype, std::span<const void* const> inputs, void* output,
            int64_t num_elements) {
  ops::Dispatch(dtype, [&]<class T>() {
    T* out = static_cast<T*>(output);
    switch (op) {
      case ReduceOp::kSum:
      case ReduceOp::kAverage:
        return ReduceAll(inputs, out, num_elements, Plus(), op == ReduceOp::kAverage);
      case ReduceOp::kMin:
        return ReduceAll(inputs, out, num_elements, Smaller(), false);
      case ReduceOp::kMax:
        return ReduceAll(inputs, out, num_elements, Larger(), false);
    }
  });
}

}  // namespace ddp
