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

TEST(MatMulTableTest, LargeProductsAreHalvedAndSmallOnesAreNot) {
  const ProductSplit forward = SplitProduct({64, 1024, 784, false, true});
  EXPECT_FALSE(forward.rows);
  EXPECT_EQ(forward.extent, 512);
  const ProductSplit weight_gradient = SplitProduct({1024, 784, 64, true, false});
  EXPECT_TRUE(weight_gradient.rows);
  EXPECT_EQ(weight_gradient.extent, 512);
  EXPECT_EQ(SplitProduct({64, 10, 1024, false, true}).extent, 64);
  EXPECT_EQ(SplitProduct({256, 256, 256, false, false}).extent, 256);
  EXPECT_EQ(SplitProduct({1024, 1024, 1024, false, false}).extent, 256);
}

}  // namespace
}  // namespace ops::cpu
