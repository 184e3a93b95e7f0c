#include "ops/cpu/matmul_table.h"

#include <gtest/gtest.h>

namespace ops::cpu {
namespace {

TEST(MatMulTableTest, PicksWhatWasFasterWhereItWasMeasured) {
  const ProductShape forward = {64, 1024, 1024, false, true};
  const ProductShape input_gradient = {64, 1024, 1024, false, false};
  const ProductShape weight_gradient = {1024, 1024, 64, true, false};
  EXPECT_EQ(FastestLibrary(Isa::kAvx2, forward), BlasLibrary::kOneDnn);
  EXPECT_EQ(FastestLibrary(Isa::kAvx2, input_gradient), BlasLibrary::kOpenBlas);
  EXPECT_EQ(FastestLibrary(Isa::kAvx2, weight_gradient), BlasLibrary::kOneDnn);
  EXPECT_EQ(FastestLibrary(Isa::kAvx2, {1024, 256, 512, true, false}), BlasLibrary::kOpenBlas);
  EXPECT_EQ(FastestLibrary(Isa::kAvx512, input_gradient), BlasLibrary::kOneDnn);
  EXPECT_EQ(FastestLibrary(Isa::kBaseline, forward), BlasLibrary::kOpenBlas);
}

int64_t Pieces(BlasLibrary library, const ProductShape& shape) {
  const ProductSplit split = SplitProduct(library, shape);
  const int64_t extent = split.rows ? shape.m : shape.n;
  return (extent + split.extent - 1) / split.extent;
}

TEST(MatMulTableTest, LargeProductsHaveWorkForManyThreadsAndSmallOnesForOne) {
  constexpr BlasLibrary kOneDnn = BlasLibrary::kOneDnn, kOpenBlas = BlasLibrary::kOpenBlas;
  EXPECT_EQ(Pieces(kOneDnn, {512, 768, 256, false, true}), 4);
  EXPECT_EQ(Pieces(kOneDnn, {512, 256, 768, false, false}), 4);
  EXPECT_EQ(Pieces(kOneDnn, {768, 256, 512, true, false}), 4);
  EXPECT_EQ(Pieces(kOneDnn, {512, 256, 1024, false, true}), 2);
  EXPECT_EQ(Pieces(kOneDnn, {64, 1024, 784, false, true}), 2);
  EXPECT_EQ(Pieces(kOneDnn, {64, 1568, 128, false, false}), 2);
  EXPECT_EQ(Pieces(kOneDnn, {64, 128, 1568, false, true}), 2);
  EXPECT_EQ(Pieces(kOneDnn, {1024, 1024, 1024, false, false}), 8);
  EXPECT_EQ(Pieces(kOpenBlas, {1024, 1024, 1024, false, false}), 4);
  EXPECT_EQ(Pieces(kOneDnn, {64, 10, 1024, false, true}), 1);
  EXPECT_EQ(Pieces(kOneDnn, {32, 32, 1 << 20, false, true}), 1);
}

TEST(MatMulTableTest, TheFactorThatCostsMoreToPackStaysWhole) {
  const auto rows = [](const ProductShape& shape) {
    return SplitProduct(BlasLibrary::kOneDnn, shape).rows;
  };
  EXPECT_FALSE(rows({512, 256, 1024, false, true}));
  EXPECT_TRUE(rows({512, 1024, 256, false, false}));
  EXPECT_FALSE(rows({64, 1024, 1024, false, false}));
  EXPECT_TRUE(rows({1024, 256, 512, true, false}));
}

}  // namespace
}  // namespace ops::cpu
