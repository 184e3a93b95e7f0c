#include "ops/cpu/pooling.h"

#include <algorithm>

#include "ops/cpu/isa.h"
#include "ops/cpu/pooling_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

// Work for some microseconds: less isn't worth a hand-over to another thread.
constexpr int64_t kChunkElements = 32768;

const PoolingKernels& KernelsOf(DType dtype) {
  const auto& kernels =
      ForIsa(baseline::kPoolingKernels, avx2::kPoolingKernels, avx512::kPoolingKernels);
  return kernels[static_cast<int>(dtype)];
}

DType ComputeType(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

int64_t Area(const PoolingShape& shape) { return shape.height.in * shape.width.in; }

int64_t NumPlanes(const Tensor& tensor) { return tensor.dim(0) * tensor.dim(1); }

// The first byte of a plane.
std::byte* PlaneOf(const Tensor& tensor, int64_t plane) {
  return tensor.raw_data() + plane * tensor.dim(2) * tensor.dim(3) * SizeOf(tensor.dtype());
}

// Calls body(begin, end) with ranges of planes, of which there are as many as `tensor` has.
template <class F>
void ForPlanes(const PoolingShape& shape, const Tensor& tensor, F body) {
  const int64_t size = Area(shape) + shape.height.out * shape.width.out;
  ParallelFor(NumPlanes(tensor), std::max<int64_t>(1, kChunkElements / size), body);
}

// Calls add(plane, gradient, row) for each plane, with zeros to add the plane's gradient to and
// room for a row, and puts the result into dx.
template <class F>
void ForGradientPlanes(const PoolingShape& shape, const Tensor& dx, bool accumulate, F add) {
  const PoolingKernels& kernels = KernelsOf(dx.dtype());
  ForPlanes(shape, dx, [&](int64_t begin, int64_t end) {
    const int64_t rows = shape.height.in;
    const Tensor scratch =
        Tensor::Empty({rows + 1, shape.width.in}, {.dtype = ComputeType(dx.dtype())});
    const Tensor gradient = scratch.Slice(0, rows), row = scratch.Slice(rows, rows + 1);
    for (int64_t plane = begin; plane < end; ++plane) {
      gradient.FillZero();
      add(plane, gradient.raw_data(), row.raw_data());
      kernels.store(gradient.raw_data(), accumulate, PlaneOf(dx, plane), Area(shape));
    }
  });
}

// The windows of an axis as lists.
class Windows {
 public:
  Windows(const PoolingAxis& axis, bool count_padding)
      : in_(axis.in), lists_(Tensor::Empty({3, axis.out}, {.dtype = DType::kInt64})) {
    int64_t* const begin = lists_.data<int64_t>();
    int64_t *const end = begin + axis.out, *const divisor = end + axis.out;
    for (int64_t i = 0; i < axis.out; ++i) {
      if (axis.is_adaptive) {
        begin[i] = i * axis.in / axis.out;
        end[i] = ((i + 1) * axis.in + axis.out - 1) / axis.out;
        divisor[i] = end[i] - begin[i];
        continue;
      }
      const int64_t first = i * axis.stride - axis.padding;
      begin[i] = std::max<int64_t>(first, 0);
      end[i] = std::min(first + axis.kernel, axis.in);
      divisor[i] = count_padding ? std::min(first + axis.kernel, axis.in + axis.padding) - first
                                 : end[i] - begin[i];
    }
  }

  PoolingWindows lists() const {
    const int64_t* const begin = lists_.data<int64_t>();
    const int64_t out = lists_.dim(1);
    return {in_, out, begin, begin + out, begin + 2 * out};
  }

 private:
  int64_t in_;
  Tensor lists_;
};

// Windows of 2 x 2 side by side, the most usual, none of which reaches beyond the plane.
bool IsOfFour(const PoolingShape& shape) {
  const auto is_halved = [](const PoolingAxis& axis) {
    return axis.kernel == 2 && axis.stride == 2 && axis.padding == 0 && 2 * axis.out <= axis.in;
  };
  return is_halved(shape.height) && is_halved(shape.width);
}

}  // namespace

DType MaxPoolIndexType(const PoolingShape& shape) {
  const auto& [height, width] = shape;
  const bool fits = !height.is_adaptive && !width.is_adaptive && height.kernel <= 256 &&
                    width.kernel <= 256 && height.kernel * width.kernel <= 256;
  return fits ? DType::kUInt8 : DType::kInt64;
}

void MaxPool(const PoolingShape& shape, const Tensor& x, const Tensor& y, const Tensor& indices) {
  const PoolingKernels& kernels = KernelsOf(x.dtype());
  if (indices.dtype() == DType::kUInt8) {
    const auto kernel = IsOfFour(shape) ? kernels.max_of_four : kernels.max_of_taps;
    ForPlanes(shape, y, [&](int64_t begin, int64_t end) {
      const Tensor row = Tensor::Empty({2, shape.width.out}, {.dtype = ComputeType(x.dtype())});
      for (int64_t plane = begin; plane < end; ++plane) {
        kernel({.height = shape.height,
                .width = shape.width,
                .x = PlaneOf(x, plane),
                .y = PlaneOf(y, plane),
                .taps = reinterpret_cast<uint8_t*>(PlaneOf(indices, plane)),
                .row = row.raw_data()});
      }
    });
    return;
  }
  const Windows height(shape.height, false), width(shape.width, false);
  ForPlanes(shape, y, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      kernels.max_of_windows({.height = height.lists(),
                              .width = width.lists(),
                              .x = PlaneOf(x, plane),
                              .y = PlaneOf(y, plane),
                              .indices = reinterpret_cast<int64_t*>(PlaneOf(indices, plane))});
    }
  });
}

void MaxPoolBackward(const PoolingShape& shape, const Tensor& dy, const Tensor& indices,
                     const Tensor& dx, bool accumulate) {
  const PoolingKernels& kernels = KernelsOf(dx.dtype());
  const auto taps_of = [&](int64_t plane, std::byte* gradient) -> MaxOfTapsBackward {
    return {.height = shape.height,
            .width = shape.width,
            .dy = PlaneOf(dy, plane),
            .taps = reinterpret_cast<const uint8_t*>(PlaneOf(indices, plane)),
            .gradient = gradient};
  };
  if (indices.dtype() == DType::kInt64) {
    const int64_t n = dy.dim(2) * dy.dim(3);
    ForGradientPlanes(shape, dx, accumulate, [&](int64_t plane, std::byte* gradient, std::byte*) {
      kernels.scatter(PlaneOf(dy, plane), reinterpret_cast<const int64_t*>(PlaneOf(indices, plane)),
                      n, gradient);
    });
  } else if (IsOfFour(shape)) {
    ForPlanes(shape, dx, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        kernels.max_of_four_backward(taps_of(plane, nullptr), accumulate, PlaneOf(dx, plane));
      }
    });
  } else {
    ForGradientPlanes(shape, dx, accumulate, [&](int64_t plane, std::byte* gradient, std::byte*) {
      kernels.max_of_taps_backward(taps_of(plane, gradient));
    });
  }
}

void AveragePool(const PoolingShape& shape, bool count_padding, const Tensor& x, const Tensor& y) {
  const PoolingKernels& kernels = KernelsOf(x.dtype());
  const Windows height(shape.height, count_padding), width(shape.width, count_padding);
  ForPlanes(shape, y, [&](int64_t begin, int64_t end) {
    const Tensor row = Tensor::Empty({shape.width.in}, {.dtype = ComputeType(x.dtype())});
    for (int64_t plane = begin; plane < end; ++plane) {
      kernels.average({.height = height.lists(),
                       .width = width.lists(),
                       .x = PlaneOf(x, plane),
                       .y = PlaneOf(y, plane),
                       .row = row.raw_data()});
    }
  });
}

void AveragePoolBackward(const PoolingShape& shape, bool count_padding, const Tensor& dy,
                         const Tensor& dx, bool accumulate) {
  const PoolingKernels& kernels = KernelsOf(dx.dtype());
  const Windows height(shape.height, count_padding), width(shape.width, count_padding);
  ForGradientPlanes(shape, dx, accumulate, [&](int64_t plane, std::byte* gradient, std::byte* row) {
    kernels.average_backward({.height = height.lists(),
                              .width = width.lists(),
                              .dy = PlaneOf(dy, plane),
                              .gradient = gradient,
                              .row = row});
  });
}

}  // namespace ops::cpu
