#include "ddp/collectives/messages/wide_average.h"

#include <cmath>
#include <stdexcept>
#include <type_traits>

namespace ddp {
namespace {

// What averages are calculated in, and what is wider.
template <class T>
using Narrow = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, long double, double>;

template <class T>
bool AreFinite(const T* values, int64_t num_elements) {
  bool finite = true;
  for (int64_t i = 0; i < num_elements; ++i) {
    finite &= std::isfinite(static_cast<Narrow<T>>(values[i]));
  }
  return finite;
}

template <class T>
void AccumulateWide(const T* input, Wide<T>* sums, bool go_on, int64_t num_elements) {
  for (int64_t i = 0; i < num_elements; ++i) {
    const Wide<T> value = static_cast<Narrow<T>>(input[i]);
    sums[i] = go_on ? sums[i] + value : value;
  }
}

template <class T>
void FinishWide(const Wide<T>* sums, int num_ranks, T* output, int64_t num_elements) {
  for (int64_t i = 0; i < num_elements; ++i) {
    if (std::isfinite(static_cast<Narrow<T>>(output[i]))) continue;
    output[i] = static_cast<T>(static_cast<Narrow<T>>(sums[i] / num_ranks));
  }
}

// Calls f.template operator()<T>() with the type of `dtype`, a floating point one.
template <class F>
auto DispatchFloating(ops::DType dtype, F f) {
  return ops::Dispatch(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      throw std::invalid_argument("an average of integers doesn't overflow");
      return f.template operator()<float>();
    } else {
      return f.template operator()<T>();
    }
  });
}

}  // namespace

bool IsFinite(const Buffer& floats) {
  return DispatchFloating(floats.dtype, [&]<class T>() {
    return AreFinite(static_cast<const T*>(floats.data), floats.num_elements);
  });
}

ChainArithmetic WideAverage(ops::DType dtype, int num_ranks) {
  return DispatchFloating(dtype, [&]<class T>() -> ChainArithmetic {
    return {
        .accumulator_bytes = sizeof(Wide<T>),
        .accumulate =
            [](const void* input, void* sums, bool go_on, int64_t num_elements) {
              AccumulateWide(static_cast<const T*>(input), static_cast<Wide<T>*>(sums), go_on,
                             num_elements);
            },
        .finish =
            [num_ranks](const void* sums, void* output, int64_t num_elements) {
              FinishWide(static_cast<const Wide<T>*>(sums), num_ranks, static_cast<T*>(output),
                         num_elements);
            },
    };
  });
}

}  // namespace ddp
