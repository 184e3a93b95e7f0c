#include "ops/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include "ops/cpu/blas.h"
#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

struct Case {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;

  Shape a() const { return transpose_a ? Shape{k, m} : Shape{m, k}; }
  Shape b() const { return transpose_b ? Shape{n, k} : Shape{k, n}; }
  std::string ToString() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " +
           (transpose_a ? "T" : "N") + (transpose_b ? "T" : "N");
  }
};

std::vector<double> Reference(const Case& c, const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.ToVector<double>(), y = b.ToVector<double>();
  std::vector<double> out(c.m * c.n);
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t p = 0; p < c.k; ++p) {
      const double left = c.transpose_a ? x[p * c.m + i] : x[i * c.k + p];
      for (int64_t j = 0; j < c.n; ++j) {
        out[i * c.n + j] += left * (c.transpose_b ? y[j * c.k + p] : y[p * c.n + j]);
      }
    }
  }
  return out;
}

// For factors that are standard normal: sums of k terms, which are rounded k times.
void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected, int64_t k,
                DType dtype) {
  const double unit = dtype == DType::kFloat64 ? 0x1p-52 : 0x1p-23;
  const double rounded = dtype == DType::kBFloat16  ? 0x1p-8
                         : dtype == DType::kFloat16 ? 0x1p-11
                                                    : unit;
  const double tolerance = 8 * unit * static_cast<double>(k + 8);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance + 2 * rounded * std::abs(expected[i])) << i;
  }
}

// With the kernels of every instruction set.
void ExpectProductIsRight(DType dtype, const Case& c) {
  SCOPED_TRACE(c.ToString());
  const Tensor a = RandomTensor(c.a(), dtype, 1), b = RandomTensor(c.b(), dtype, 2);
  const std::vector<double> expected = Reference(c, a, b);
  std::vector<double> twice = expected;
  for (double& value : twice) value *= 2;
  ForEachIsa([&] {
    const Tensor out = Misaligned({c.m, c.n}, dtype);
    out.Fill(std::numeric_limits<double>::quiet_NaN());  // overwritten, not multiplied by 0
    MatMul(a, b, out, {c.transpose_a, c.transpose_b, false});
    ExpectNear(out.ToVector<double>(), expected, c.k, dtype);
    MatMul(a, b, out, {c.transpose_a, c.transpose_b, /*accumulate=*/true});
    ExpectNear(out.ToVector<double>(), twice, c.k, dtype);
  });
}

TEST(MatMulTest, EveryTransposeAndOddExtents) {
  for (const DType dtype : kFloatingDTypes) {
    for (const int64_t m : {0, 1, 3, 17, 64}) {
      for (const int64_t n : {0, 1, 3, 17, 64}) {
        for (const int64_t k : {0, 1, 3, 17, 64}) {
          for (const bool ta : {false, true}) {
            for (const bool tb : {false, true}) ExpectProductIsRight(dtype, {m, n, k, ta, tb});
          }
        }
      }
    }
  }
}

TEST(MatMulTest, ThinShapes) {
  const Case kCases[] = {
      {10, 2, 5, false, true},    {1, 1000, 300, false, true}, {1000, 1, 300, false, false},
      {1, 1, 5000, false, true},  {10, 300, 64, true, false},  {64, 10, 1024, false, true},
      {5, 700, 10, false, false}, {100, 30, 40, true, true},
  };
  for (const DType dtype : kFloatingDTypes) {
    for (const Case& c : kCases) ExpectProductIsRight(dtype, c);
  }
}

TEST(MatMulTest, ShapesThatAreSplitByColumnsAndByRows) {
  ExpectProductIsRight(DType::kFloat32, {64, 1000, 800, false, true});
  ExpectProductIsRight(DType::kFloat32, {1030, 750, 66, true, false});
}

// The product of the broadcast batch, summed up to `out`: by the products of single matrices, whose
// values the tests above look at.
std::vector<double> BatchReference(const Tensor& a, const Tensor& b, const Shape& out_shape,
                                   const MatMulOptions& options) {
  const int64_t m = out_shape.dim(-2), n = out_shape.dim(-1);
  std::vector<double> out(out_shape.num_elements());
  const auto extent = [](const Shape& shape, int i) { return i < 0 ? 1 : shape.dim(i); };
  const auto matrix = [&](const Tensor& x, int64_t i) {
    const int64_t count = x.num_elements() / (x.dim(-2) * x.dim(-1));
    return x.View({count, x.dim(-2), x.dim(-1)}).Slice(i, i + 1).View({x.dim(-2), x.dim(-1)});
  };
  const auto index = [&](const Shape& shape, int64_t i, int64_t j) {  // of two leading dimensions
    const int64_t first = extent(shape, shape.rank() - 4), second = extent(shape, shape.rank() - 3);
    return (first == 1 ? 0 : i) * second + (second == 1 ? 0 : j);
  };
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 2; ++j) {
      const Tensor product = Tensor::Empty({m, n}, a.options());
      MatMul(matrix(a, index(a.shape(), i, j)), matrix(b, index(b.shape(), i, j)), product,
             options);
      const std::vector<double> values = product.ToVector<double>();
      const int64_t offset = index(out_shape, i, j) * m * n;
      for (int64_t e = 0; e < m * n; ++e) out[offset + e] += values[e];
    }
  }
  return out;
}

Shape With(std::vector<int64_t> leading, int64_t rows, int64_t columns) {
  leading.push_back(rows);
  leading.push_back(columns);
  return Shape(std::span<const int64_t>(leading));
}

// With leading dimensions that broadcast to [3, 2].
void ExpectBatchIsRight(DType dtype, const std::vector<int64_t>& a_leading,
                        const std::vector<int64_t>& b_leading,
                        const std::vector<int64_t>& out_leading, const Case& c) {
  const Tensor a = RandomTensor(With(a_leading, c.a()[0], c.a()[1]), dtype, 1);
  const Tensor b = RandomTensor(With(b_leading, c.b()[0], c.b()[1]), dtype, 2);
  const Tensor out = Misaligned(With(out_leading, c.m, c.n), dtype);
  SCOPED_TRACE(a.Describe() + " times " + b.Describe() + " to " + out.Describe());
  const MatMulOptions options = {c.transpose_a, c.transpose_b};
  const std::vector<double> expected = BatchReference(a, b, out.shape(), options);
  std::vector<double> twice = expected;
  for (double& value : twice) value *= 2;
  out.Fill(std::numeric_limits<double>::quiet_NaN());
  MatMul(a, b, out, options);
  ExpectNear(out.ToVector<double>(), expected, 6 * c.k, dtype);
  MatMul(a, b, out, {c.transpose_a, c.transpose_b, /*accumulate=*/true});
  ExpectNear(out.ToVector<double>(), twice, 6 * c.k, dtype);
}

TEST(MatMulTest, LeadingDimensionsAreBroadcastOrSummedUp) {
  const std::vector<int64_t> kLeading[] = {{3, 2}, {1, 2}, {3, 1}, {2}, {}};
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const auto& leading : kLeading) {
        const Case c = {5, 7, 4, ta, tb};
        ExpectBatchIsRight(DType::kFloat32, {3, 2}, leading, {3, 2}, c);
        ExpectBatchIsRight(DType::kFloat64, leading, {3, 2}, {3, 2}, c);
        ExpectBatchIsRight(DType::kFloat32, {3, 2}, {3, 2}, leading, c);
        ExpectBatchIsRight(DType::kFloat64, {3, 1}, {3, 2}, leading, c);
      }
    }
  }
  ExpectBatchIsRight(DType::kFloat32, {3, 1}, {1, 2}, {3, 2}, {70, 60, 50});
  ExpectBatchIsRight(DType::kFloat32, {3, 2}, {3, 1}, {3, 2}, {256, 250, 200});
}

TEST(MatMulTest, SumsOverEmptyBatchesAreZero) {
  const Tensor out = Tensor::Full({2, 3}, 7);
  MatMul(Tensor::Zeros({0, 2, 4}), Tensor::Zeros({0, 4, 3}), out, {.accumulate = true});
  EXPECT_EQ(out.ToVector<float>(), std::vector<float>(6, 7));
  MatMul(Tensor::Zeros({0, 2, 4}), Tensor::Zeros({0, 4, 3}), out);
  EXPECT_EQ(out.ToVector<float>(), std::vector<float>(6, 0));
}

TEST(MatMulPlusBiasTest, AddsARow) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Case& c : {Case{10, 2, 5}, Case{3, 17, 0}, Case{64, 300, 500}, Case{600, 70, 300}}) {
      SCOPED_TRACE(c.ToString());
      const Tensor x = RandomTensor({c.m, c.k}, dtype, 1),
                   weight = RandomTensor({c.n, c.k}, dtype, 2);
      const Tensor bias = RandomTensor({c.n}, dtype, 3), out = Misaligned({c.m, c.n}, dtype);
      std::vector<double> expected = Reference({c.m, c.n, c.k, false, true}, x, weight);
      MatMulPlusBias(x, weight, Tensor(), out);
      ExpectNear(out.ToVector<double>(), expected, c.k, dtype);
      const std::vector<double> row = bias.ToVector<double>();
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += row[i % c.n];
      ForEachIsa([&] {
        MatMulPlusBias(x, weight, bias, out);
        ExpectNear(out.ToVector<double>(), expected, c.k, dtype);
      });
    }
  }
}

// 300 * 300 and more has no float16, but what is left of it in the end does.
TEST(MatMulTest, HalvesAreRoundedOnce) {
  const auto half = [](std::vector<float> values, const Shape& shape) {
    return Tensor::FromVector(values, shape).To(DType::kFloat16);
  };
  const Tensor out = half({-1}, {1, 1});
  MatMul(half({300, 300}, {1, 2}), half({300, -300}, {2, 1}), out, {.accumulate = true});
  EXPECT_EQ(out.Item(), -1);
}

TEST(MatMulTest, BothLibrariesAreRightInEveryTranspose) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Case c = {33, 70, 129, ta, tb};
      const Tensor a = RandomTensor(c.a(), DType::kFloat32, 1);
      const Tensor b = RandomTensor(c.b(), DType::kFloat32, 2);
      const std::vector<double> expected = Reference(c, a, b);
      for (const auto multiply :
           {static_cast<void (*)(const MatrixProduct<float>&)>(MultiplyWithOpenBlas),
            MultiplyWithOneDnn}) {
        const Tensor out = Tensor::Zeros({c.m, c.n});
        multiply({.m = c.m,
                  .n = c.n,
                  .k = c.k,
                  .transpose_a = ta,
                  .transpose_b = tb,
                  .a = a.data<float>(),
                  .a_stride = a.dim(1),
                  .b = b.data<float>(),
                  .b_stride = b.dim(1),
                  .c = out.data<float>(),
                  .c_stride = c.n,
                  .accumulate = false});
        ExpectNear(out.ToVector<double>(), expected, c.k, DType::kFloat32);
      }
    }
  }
}

TEST(MatMulTest, NotFiniteValuesPassThrough) {
  ForEachIsa([] {
    for (const int64_t size : {4, 100}) {
      const Tensor a = Tensor::Full({size, size}, 1), b = Tensor::Full({size, size}, 1);
      const Tensor out = Tensor::Empty({size, size});
      a.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
      b.data<float>()[1] = std::numeric_limits<float>::infinity();
      MatMul(a, b, out);
      EXPECT_TRUE(std::isnan(out.data<float>()[0]));
      EXPECT_TRUE(std::isinf(out.data<float>()[size + 1]));
      EXPECT_EQ(out.data<float>()[size], size);
    }
  });
}

TEST(MatMulTest, ThreadsDoNotChangeBits) {
  const Case kCases[] = {
      {64, 1024, 784, false, true},
      {64, 1000, 1024, false, false},
      {1100, 784, 64, true, false},
      {600, 500, 300, true, true},
  };
  ForEachIsa([&] {
    for (const DType dtype : kFloatingDTypes) {
      for (const Case& c : kCases) {
        const Tensor a = RandomTensor(c.a(), dtype, 1), b = RandomTensor(c.b(), dtype, 2);
        ExpectSameBitsOnThreads([&] {
          const Tensor out = Tensor::Zeros({c.m, c.n}, {.dtype = dtype});
          MatMul(a, b, out, {c.transpose_a, c.transpose_b, true});
          return out;
        });
      }
    }
  });
}

TEST(MatMulTest, ThreadsDoNotChangeTheBitsOfBatches) {
  const Tensor a = RandomTensor({3, 8, 30, 40}, DType::kFloat32, 1);
  const Tensor b = RandomTensor({8, 40, 50}, DType::kFloat32, 2);
  for (const Shape& shape : {Shape{3, 8, 30, 50}, Shape{8, 30, 50}, Shape{30, 50}}) {
    ExpectSameBitsOnThreads([&] {
      const Tensor out = Tensor::Zeros(shape);
      MatMul(a, b, out);
      return out;
    });
  }
}

int64_t NumThreadsOfProcess() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// OpenBLAS makes its threads when it is loaded, and never uses them; oneDNN's OpenMP makes none.
TEST(MatMulTest, ProductsMakeNoThreads) {
  const Tensor a = RandomTensor({512, 512}, DType::kFloat32, 1);
  const auto multiply = [&] { MatMul(a, a, Tensor::Empty({512, 512})); };
  ForEachIsa(multiply);  // loads the libraries
  const int64_t num_threads = NumThreadsOfProcess();
  ForEachIsa(multiply);
  // A fresh thread doesn't inherit OpenMP's settings from the first.
  std::thread([&] { ForEachIsa(multiply); }).join();
  EXPECT_EQ(NumThreadsOfProcess(), num_threads);
}

}  // namespace
}  // namespace ops::cpu
