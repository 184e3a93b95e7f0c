#include "ops/cpu/pooling_kernels.h"

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

// Windows [begin, end), whose element `tap` lies inside the plane.
struct Range {
  int64_t begin, end;
};

Range Inside(const PoolingAxis& axis, int64_t tap) {
  const int64_t before = axis.padding - tap;  // how far outside the first window's element lies
  const int64_t begin = before > 0 ? (before + axis.stride - 1) / axis.stride : 0;
  const int64_t last = axis.in - 1 + before;  // how far the last element is from the first window's
  const int64_t end = last < 0 ? 0 : last / axis.stride + 1;
  return {begin, end < axis.out ? end : axis.out};
}

// The first element of window i that lies inside.
int64_t FirstTap(const PoolingAxis& axis, int64_t i) {
  const int64_t outside = axis.padding - i * axis.stride;
  return outside > 0 ? outside : 0;
}

// Lets one element of each of n windows compete; kStride is 0 for a stride known at run time only.
template <class T, int kStride>
[[gnu::always_inline]] inline void Compete(const T* x, int64_t stride, uint8_t tap, int64_t n,
                                           Compute<T>* largest, uint8_t* taps) {
  ForEach(n, [=](int64_t j) {
    const Compute<T> value = Load(x[j * (kStride > 0 ? kStride : stride)]);
    const bool wins = (value > largest[j]) | (value != value);
    taps[j] = wins ? tap : taps[j];
    largest[j] = wins ? value : largest[j];
  });
}

template <class T>
void MaxOfRow(const MaxOfTaps& p, int64_t i, Compute<T>* largest, uint8_t* taps) {
  const PoolingAxis &height = p.height, &width = p.width;
  const int64_t top = i * height.stride - height.padding;
  const int64_t first_row = FirstTap(height, i);
  for (int64_t j = 0; j < width.out; ++j) {
    largest[j] = -__builtin_inf();
    taps[j] = static_cast<uint8_t>(first_row * width.kernel + FirstTap(width, j));
  }
  for (int64_t row = first_row; row < height.kernel && top + row < height.in; ++row) {
    const T* const x = static_cast<const T*>(p.x) + (top + row) * width.in - width.padding;
    for (int64_t column = 0; column < width.kernel; ++column) {
      const auto [begin, end] = Inside(width, column);
      const auto tap = static_cast<uint8_t>(row * width.kernel + column);
      const T* const from = x + begin * width.stride + column;
      switch (width.stride) {
        case 1:
          Compete<T, 1>(from, 1, tap, end - begin, largest + begin, taps + begin);
          break;
        case 2:
          Compete<T, 2>(from, 2, tap, end - begin, largest + begin, taps + begin);
          break;
        default:
          Compete<T, 0>(from, width.stride, tap, end - begin, largest + begin, taps + begin);
      }
    }
  }
}

template <class T>
void MaxPool(const MaxOfTaps& p) {
  auto* const largest = static_cast<Compute<T>*>(p.row);
  for (int64_t i = 0; i < p.height.out; ++i) {
    MaxOfRow<T>(p, i, largest, p.taps + i * p.width.out);
    T* const y = static_cast<T*>(p.y) + i * p.width.out;
    ForEach(p.width.out, [=](int64_t j) { y[j] = Round<T>(largest[j]); });
  }
}

template <class T>
void MaxPoolBackward(const MaxOfTapsBackward& p) {
  const PoolingAxis &height = p.height, &width = p.width;
  int64_t offsets[256];  // of taps, in the plane
  for (int64_t tap = 0; tap < height.kernel * width.kernel; ++tap) {
    offsets[tap] = tap / width.kernel * width.in + tap % width.kernel;
  }
  auto* const gradient = static_cast<Compute<T>*>(p.gradient);
  for (int64_t i = 0; i < height.out; ++i) {
    const T* const dy = static_cast<const T*>(p.dy) + i * width.out;
    const uint8_t* const taps = p.taps + i * width.out;
    int64_t corner = (i * height.stride - height.padding) * width.in - width.padding;
    for (int64_t j = 0; j < width.out; ++j, corner += width.stride) {
      gradient[corner + offsets[taps[j]]] += Load(dy[j]);
    }
  }
}

// One row of the plane, below n windows of 2 x 2 side by side whose upper or lower half it is.
template <class T, bool kAccumulate>
void MaxOfFourBackwardRow(const T* dy, const uint8_t* taps, uint8_t first_tap, int64_t n, T* dx) {
  using C = Compute<T>;
  ForEach(n, [=](int64_t j) {
    const C arriving = Load(dy[j]);
    const C left = taps[j] == first_tap ? arriving : 0;
    const C right = taps[j] == first_tap + 1 ? arriving : 0;
    dx[2 * j] = Round<T>(kAccumulate ? Load(dx[2 * j]) + left : left);
    dx[2 * j + 1] = Round<T>(kAccumulate ? Load(dx[2 * j + 1]) + right : right);
  });
}

template <class T>
void MaxOfFourBackward(const MaxOfTapsBackward& p, bool accumulate, void* dx) {
  const int64_t columns = p.width.out;
  for (int64_t row = 0; row < p.height.in; ++row) {
    T* const to = static_cast<T*>(dx) + row * p.width.in;
    const int64_t covered = row / 2 < p.height.out ? 2 * columns : 0;
    const T* const dy = static_cast<const T*>(p.dy) + row / 2 * columns;
    const uint8_t* const taps = p.taps + row / 2 * columns;
    const auto first_tap = static_cast<uint8_t>(row % 2 * 2);
    if (accumulate) {
      MaxOfFourBackwardRow<T, true>(dy, taps, first_tap, covered / 2, to);
    } else {
      MaxOfFourBackwardRow<T, false>(dy, taps, first_tap, covered / 2, to);
      for (int64_t j = covered; j < p.width.in; ++j) to[j] = T{};
    }
  }
}

template <class T>
void MaxOfAnyWindows(const MaxOfWindows& p) {
  const T* const x = static_cast<const T*>(p.x);
  T* const y = static_cast<T*>(p.y);
  for (int64_t i = 0; i < p.height.out; ++i) {
    for (int64_t j = 0; j < p.width.out; ++j) {
      int64_t index = p.height.begin[i] * p.width.in + p.width.begin[j];
      Compute<T> largest = Load(x[index]);
      for (int64_t row = p.height.begin[i]; row < p.height.end[i]; ++row) {
        for (int64_t column = p.width.begin[j]; column < p.width.end[j]; ++column) {
          const Compute<T> value = Load(x[row * p.width.in + column]);
          if (value > largest || value != value) {
            largest = value;
            index = row * p.width.in + column;
          }
        }
      }
      y[i * p.width.out + j] = Round<T>(largest);
      p.indices[i * p.width.out + j] = index;
    }
  }
}

template <class T>
void Scatter(const void* dy, const int64_t* indices, int64_t n, void* gradient) {
  const T* const from = static_cast<const T*>(dy);
  auto* const to = static_cast<Compute<T>*>(gradient);
  for (int64_t i = 0; i < n; ++i) to[indices[i]] += Load(from[i]);
}

// Rows first, a vector of columns at a time.
template <class T>
void AveragePool(const Average& p) {
  using C = Compute<T>;
  C* const sums = static_cast<C*>(p.row);
  T* y = static_cast<T*>(p.y);
  for (int64_t i = 0; i < p.height.out; ++i) {
    for (int64_t row = p.height.begin[i]; row < p.height.end[i]; ++row) {
      const T* const x = static_cast<const T*>(p.x) + row * p.width.in;
      if (row == p.height.begin[i]) {
        ForEach(p.width.in, [=](int64_t j) { sums[j] = Load(x[j]); });
      } else {
        ForEach(p.width.in, [=](int64_t j) { sums[j] += Load(x[j]); });
      }
    }
    for (int64_t j = 0; j < p.width.out; ++j) {
      C sum = 0;
      for (int64_t c = p.width.begin[j]; c < p.width.end[j]; ++c) sum += sums[c];
      *y++ = Round<T>(sum / static_cast<C>(p.height.divisor[i] * p.width.divisor[j]));
    }
  }
}

template <class T>
void AveragePoolBackward(const AverageBackward& p) {
  using C = Compute<T>;
  C* const sums = static_cast<C*>(p.row);
  const T* dy = static_cast<const T*>(p.dy);
  for (int64_t i = 0; i < p.height.out; ++i) {
    for (int64_t j = 0; j < p.width.in; ++j) sums[j] = 0;
    for (int64_t j = 0; j < p.width.out; ++j) {
      const C part = Load(*dy++) / static_cast<C>(p.height.divisor[i] * p.width.divisor[j]);
      for (int64_t c = p.width.begin[j]; c < p.width.end[j]; ++c) sums[c] += part;
    }
    for (int64_t row = p.height.begin[i]; row < p.height.end[i]; ++row) {
      C* const gradient = static_cast<C*>(p.gradient) + row * p.width.in;
      ForEach(p.width.in, [=](int64_t j) { gradient[j] += sums[j]; });
    }
  }
}

template <class T>
void Store(const void* gradient, bool accumulate, void* dx, int64_t n) {
  const auto* const from = static_cast<const Compute<T>*>(gradient);
  T* const to = static_cast<T*>(dx);
  if (accumulate) {
    ForEach(n, [=](int64_t i) { to[i] = Round<T>(Load(to[i]) + from[i]); });
  } else {
    ForEach(n, [=](int64_t i) { to[i] = Round<T>(from[i]); });
  }
}

template <class T>
constexpr PoolingKernels KernelsOf() {
  return {MaxPool<T>, MaxPoolBackward<T>, MaxOfFourBackward<T>,   MaxOfAnyWindows<T>,
          Scatter<T>, AveragePool<T>,     AveragePoolBackward<T>, Store<T>};
}

}  // namespace

constinit const PoolingKernels kPoolingKernels[kNumPoolingDTypes] = {
    KernelsOf<float>(), KernelsOf<double>(), KernelsOf<BFloat16>(), KernelsOf<Float16>()};

}  // namespace ops::cpu::OPS_CPU_ISA
