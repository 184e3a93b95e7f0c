#include "ops/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "ops/cpu/blas.h"
#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64};

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
  const double unit = dtype == DType::kFloat32 ? 0x1p-23 : 0x1p-52;
  const double tolerance = 8 * unit * static_cast<double>(k + 8);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance + unit * std::abs(expected[i])) << i;
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
  for (const DType dtype : kDTypes) {
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
  for (const DType dtype : kDTypes) {
    for (const Case& c : kCases) ExpectProductIsRight(dtype, c);
  }
}

TEST(MatMulTest, ShapesThatAreSplitByColumnsAndByRows) {
  ExpectProductIsRight(DType::kFloat32, {64, 1000, 800, false, true});
  ExpectProductIsRight(DType::kFloat32, {1030, 750, 66, true, false});
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
    for (const DType dtype : kDTypes) {
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
