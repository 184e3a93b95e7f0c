#include "ops/cpu/pooling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

PoolingAxis Axis(int64_t in, int64_t kernel, int64_t stride, int64_t padding = 0,
                 bool ceil_mode = false) {
  int64_t out = (in + 2 * padding - kernel + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  return {.in = in, .out = out, .kernel = kernel, .stride = stride, .padding = padding};
}

PoolingAxis Adaptive(int64_t in, int64_t out) {
  return {.in = in, .out = out, .is_adaptive = true};
}

const std::vector<PoolingShape>& Shapes() {
  static const std::vector<PoolingShape> shapes = {
      {Axis(1, 1, 1), Axis(1, 1, 1)},         {Axis(28, 2, 2), Axis(28, 2, 2)},
      {Axis(15, 2, 2), Axis(37, 2, 2)},       {Axis(14, 2, 2), Axis(14, 2, 2)},
      {Axis(17, 2, 2), Axis(3, 2, 2)},        {Axis(15, 2, 2, 0, true), Axis(37, 2, 2, 0, true)},
      {Axis(14, 3, 2, 1), Axis(40, 3, 2, 1)}, {Axis(14, 3, 2, 1, true), Axis(40, 3, 2, 1, true)},
      {Axis(9, 3, 1, 1), Axis(33, 3, 1, 1)},  {Axis(9, 2, 3, 1), Axis(35, 4, 3, 2, true)},
      {Axis(1, 1, 1), Axis(20, 5, 2, 2)},     {Axis(2, 6, 5, 3), Axis(3, 7, 2, 3)},
      {Axis(20, 20, 1), Axis(40, 17, 3)},     {Adaptive(14, 1), Adaptive(14, 1)},
      {Adaptive(14, 5), Adaptive(33, 7)},     {Adaptive(3, 7), Adaptive(5, 20)},
      {Adaptive(8, 8), Adaptive(8, 4)},
  };
  return shapes;
}

std::string Describe(const PoolingAxis& axis) {
  return std::to_string(axis.in) + " to " + std::to_string(axis.out);
}

// A window by the definition: what lies inside the plane, and what the mean divides by.
struct Window {
  int64_t begin, end, counted;
};

Window WindowOf(const PoolingAxis& axis, int64_t i, bool count_padding) {
  if (axis.is_adaptive) {
    const auto ratio = static_cast<double>(axis.in) / static_cast<double>(axis.out);
    const auto begin = static_cast<int64_t>(std::floor(static_cast<double>(i) * ratio + 1e-9));
    const auto end = static_cast<int64_t>(std::ceil(static_cast<double>(i + 1) * ratio - 1e-9));
    return {begin, end, end - begin};
  }
  Window window = {axis.in, 0, 0};
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t at = i * axis.stride - axis.padding + k;
    const bool inside = at >= 0 && at < axis.in;
    if (inside) {
      window.begin = std::min(window.begin, at);
      window.end = at + 1;
    }
    if (inside || (count_padding && at < axis.in + axis.padding)) ++window.counted;
  }
  return window;
}

// Calls f(output element, window of rows, window of columns) for every plane of `planes`.
template <class F>
void ForEachWindow(const PoolingShape& shape, int64_t planes, bool count_padding, F f) {
  for (int64_t o = 0; o < planes * shape.height.out * shape.width.out; ++o) {
    f(o, WindowOf(shape.height, o / shape.width.out % shape.height.out, count_padding),
      WindowOf(shape.width, o % shape.width.out, count_padding));
  }
}

double ToleranceOf(DType dtype) {
  return dtype == DType::kFloat64   ? 1e-13
         : dtype == DType::kFloat32 ? 1e-5
         : dtype == DType::kFloat16 ? 2e-3
                                    : 1e-2;
}

void ExpectNear(const Tensor& actual, const std::vector<double>& expected) {
  const std::vector<double> values = actual.ToVector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], ToleranceOf(actual.dtype()) * (1 + std::abs(expected[i])))
        << "element " << i << " of " << actual.Describe();
  }
}

constexpr int64_t kPlanes = 6;

struct Tensors {
  Tensors(const PoolingShape& shape, DType dtype)
      : x(RandomTensor({2, 3, shape.height.in, shape.width.in}, dtype, 1)),
        y(Misaligned({2, 3, shape.height.out, shape.width.out}, dtype)),
        dy(RandomTensor(y.shape(), dtype, 2)),
        dx(RandomTensor(x.shape(), dtype, 3)) {}
  Tensor x, y, dy, dx;
};

void ExpectMaximaAreRight(const PoolingShape& shape, DType dtype, bool accumulate) {
  const Tensors t(shape, dtype);
  const std::vector<double> x = t.x.ToVector<double>(), dy = t.dy.ToVector<double>();
  std::vector<double> y(dy.size()), dx = t.dx.ToVector<double>();
  if (!accumulate) dx.assign(dx.size(), 0);
  const int64_t area = shape.height.in * shape.width.in;
  ForEachWindow(shape, kPlanes, false, [&](int64_t o, const Window& rows, const Window& columns) {
    const int64_t plane = o / (shape.height.out * shape.width.out) * area;
    int64_t winner = plane + rows.begin * shape.width.in + columns.begin;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t column = columns.begin; column < columns.end; ++column) {
        const int64_t i = plane + row * shape.width.in + column;
        if (x[i] > x[winner]) winner = i;
      }
    }
    y[o] = x[winner];
    dx[winner] += dy[o];
  });
  const Tensor indices = Tensor::Empty(t.y.shape(), {.dtype = MaxPoolIndexType(shape)});
  MaxPool(shape, t.x, t.y, indices);
  EXPECT_EQ(t.y.ToVector<double>(), y);
  MaxPoolBackward(shape, t.dy, indices, t.dx, accumulate);
  ExpectNear(t.dx, dx);
}

void ExpectMeansAreRight(const PoolingShape& shape, bool count_padding, DType dtype,
                         bool accumulate) {
  const Tensors t(shape, dtype);
  const std::vector<double> x = t.x.ToVector<double>(), dy = t.dy.ToVector<double>();
  std::vector<double> y(dy.size()), dx = t.dx.ToVector<double>();
  if (!accumulate) dx.assign(dx.size(), 0);
  const int64_t area = shape.height.in * shape.width.in;
  ForEachWindow(shape, kPlanes, count_padding,
                [&](int64_t o, const Window& rows, const Window& columns) {
                  const int64_t plane = o / (shape.height.out * shape.width.out) * area;
                  const auto divisor = static_cast<double>(rows.counted * columns.counted);
                  for (int64_t row = rows.begin; row < rows.end; ++row) {
                    for (int64_t column = columns.begin; column < columns.end; ++column) {
                      const int64_t i = plane + row * shape.width.in + column;
                      y[o] += x[i] / divisor;
                      dx[i] += dy[o] / divisor;
                    }
                  }
                });
  AveragePool(shape, count_padding, t.x, t.y);
  ExpectNear(t.y, y);
  AveragePoolBackward(shape, count_padding, t.dy, t.dx, accumulate);
  ExpectNear(t.dx, dx);
}

TEST(PoolingTest, MaximaOfEveryShapeAndDType) {
  ForEachIsa([] {
    for (const PoolingShape& shape : Shapes()) {
      SCOPED_TRACE(Describe(shape.height) + ", " + Describe(shape.width));
      for (const DType dtype : kFloatingDTypes) {
        for (const bool accumulate : {false, true}) {
          ExpectMaximaAreRight(shape, dtype, accumulate);
        }
      }
    }
  });
}

TEST(PoolingTest, MeansOfEveryShapeAndDType) {
  ForEachIsa([] {
    for (const PoolingShape& shape : Shapes()) {
      SCOPED_TRACE(Describe(shape.height) + ", " + Describe(shape.width));
      for (const DType dtype : kFloatingDTypes) {
        for (const bool flag : {false, true}) {
          ExpectMeansAreRight(shape, flag, dtype, false);
          ExpectMeansAreRight(shape, flag, dtype, true);
        }
      }
    }
  });
}

// The value of the only window over `values` and which of them gets its gradient.
std::pair<float, int64_t> MaximumOf(const std::vector<float>& values, bool is_adaptive) {
  const auto n = static_cast<int64_t>(values.size());
  const PoolingShape shape = is_adaptive ? PoolingShape{Adaptive(1, 1), Adaptive(n, 1)}
                                         : PoolingShape{Axis(1, 1, 1), Axis(n, n, 1)};
  const Tensor x = Tensor::FromVector(values, {1, 1, 1, n}), y = Tensor::Empty({1, 1, 1, 1});
  const Tensor indices = Tensor::Empty(y.shape(), {.dtype = MaxPoolIndexType(shape)});
  MaxPool(shape, x, y, indices);
  MaxPoolBackward(shape, Tensor::Full(y.shape(), 1), indices, x, false);
  const std::vector<float> gradient = x.ToVector<float>();
  return {static_cast<float>(y.Item()), std::ranges::find(gradient, 1.0f) - gradient.begin()};
}

TEST(PoolingTest, TheFirstOfEqualsAndTheLastNaNWin) {
  const float infinity = kInfinity, nan = std::nanf("");
  ForEachIsa([&] {
    for (const bool is_adaptive : {false, true}) {
      EXPECT_EQ(MaximumOf({1, 3, 3, 2}, is_adaptive), std::pair(3.0f, int64_t{1}));
      EXPECT_EQ(MaximumOf({-infinity, -infinity}, is_adaptive), std::pair(-infinity, int64_t{0}));
      EXPECT_EQ(MaximumOf({1, infinity, 2}, is_adaptive), std::pair(infinity, int64_t{1}));
      const auto [value, index] = MaximumOf({1, nan, infinity, nan, 5}, is_adaptive);
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(index, 3);
    }
  });
}

TEST(PoolingTest, EmptyBatches) {
  const PoolingShape shape = {Axis(4, 2, 2), Axis(4, 2, 2)};
  const Tensor x = Tensor::Zeros({0, 3, 4, 4}), y = Tensor::Zeros({0, 3, 2, 2});
  const Tensor indices = Tensor::Empty(y.shape(), {.dtype = DType::kUInt8});
  MaxPool(shape, x, y, indices);
  MaxPoolBackward(shape, y, indices, x, false);
  AveragePool(shape, true, x, y);
  AveragePoolBackward(shape, true, y, x, false);
}

TEST(PoolingTest, ThreadsDoNotChangeBits) {
  for (const PoolingShape& shape : {PoolingShape{Axis(28, 2, 2), Axis(28, 2, 2)},
                                    PoolingShape{Axis(28, 3, 2, 1), Axis(28, 3, 2, 1)},
                                    PoolingShape{Adaptive(28, 3), Adaptive(28, 3)}}) {
    const Tensor x = RandomTensor({16, 16, 28, 28}, DType::kFloat32, 1);
    const Tensor y = Tensor::Empty({16, 16, shape.height.out, shape.width.out});
    const Tensor indices = Tensor::Empty(y.shape(), {.dtype = MaxPoolIndexType(shape)});
    ExpectSameBitsOnThreads([&] {
      MaxPool(shape, x, y, indices);
      return y;
    });
    ExpectSameBitsOnThreads([&] {
      const Tensor dx = Tensor::Empty(x.shape());
      MaxPoolBackward(shape, y, indices, dx, false);
      return dx;
    });
    ExpectSameBitsOnThreads([&] {
      AveragePool(shape, true, x, y);
      return y;
    });
    ExpectSameBitsOnThreads([&] {
      const Tensor dx = Tensor::Empty(x.shape());
      AveragePoolBackward(shape, true, y, dx, false);
      return dx;
    });
  }
}

}  // namespace
}  // namespace ops::cpu
