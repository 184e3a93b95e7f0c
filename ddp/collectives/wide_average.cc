#include "ddp/collectives/wide_average.h"

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

int64_t WideBytes(ops::DType dtype) {
  return DispatchFloating(
      dtype, [&]<class T>() -> int64_t { return static_cast<int64_t>(sizeof(Wide<T>)); });
}

void AccumulateWide(ops::DType dtype, const void* input, void* sums, bool go_on,
                    int64_t num_elements) {
  DispatchFloating(dtype, [&]<class T>() {
    const T* const values = static_cast<const T*>(input);
    Wide<T>* const wide = static_cast<Wide<T>*>(sums);
    for (int64_t i = 0; i < num_elements; ++i) {
      const Wide<T> value = static_cast<Narrow<T>>(values[i]);
      wide[i] = go_on ? wide[i] + value : value;
    }
  });
}

void FinishWide(ops::DType dtype, const void* sums, int num_ranks, void* output,
                int64_t num_elements) {
  DispatchFloating(dtype, [&]<class T>() {
    const Wide<T>* const wide = static_cast<const Wide<T>*>(sums);
    T* const values = static_cast<T*>(output);
    for (int64_t i = 0; i < num_elements; ++i) {
      if (std::isfinite(static_cast<Narrow<T>>(values[i]))) continue;
      values[i] = static_cast<T>(static_cast<Narrow<T>>(wide[i] / num_ranks));
    }
  });
}

}  // namespace ddp
