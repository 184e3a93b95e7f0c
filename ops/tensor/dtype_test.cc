#include "ops/tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <type_traits>

namespace ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(DTypeTest, DispatchGivesTheTypeOfThisSizeAndName) {
  std::set<std::string_view> names;
  for (DType dtype : kAllDTypes) {
    Dispatch(dtype, [&]<class T>() {
      EXPECT_EQ(kDTypeOf<T>, dtype);
      EXPECT_EQ(SizeOf(dtype), static_cast<int64_t>(sizeof(T)));
      EXPECT_EQ(IsFloating(dtype), !std::is_integral_v<T>);
    });
    names.insert(Name(dtype));
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"float32", "float64", "bfloat16", "float16", "int64",
                                               "int32", "uint8"}));
}

TEST(DTypeTest, DispatchFloatNamesOperationAndDType) {
  EXPECT_EQ(DispatchFloat("Norm", DType::kFloat64, []<class T>() { return sizeof(T); }), 8u);
  try {
    DispatchFloat("Norm", DType::kInt32, []<class T>() {});
    FAIL() << "no exception";
  } catch (const std::invalid_argument& e) {
    EXPECT_STREQ(e.what(), "Norm: expected float32 or float64, got int32");
  }
}

template <class T>
T FromBits(uint16_t bits) {
  T value;
  value.bits = bits;
  return value;
}

// Every finite value with its successor: both come back from float32 unchanged, what lies between
// goes to the nearer, and the middle to the even one.
template <class T>
void ExpectRoundsToNearestEven(uint16_t largest_finite) {
  for (uint16_t sign : {0, 0x8000}) {
    for (uint16_t bits = 0; bits < largest_finite; ++bits) {
      const uint16_t low = sign | bits, high = sign | (bits + 1);
      const auto low_value = static_cast<float>(FromBits<T>(low));
      const auto high_value = static_cast<float>(FromBits<T>(high));
      const float middle = low_value + (high_value - low_value) / 2;
      ASSERT_EQ(T(low_value).bits, low);
      ASSERT_EQ(T(high_value).bits, high);
      ASSERT_EQ(T(middle).bits, low & 1 ? high : low) << middle;
      ASSERT_EQ(T(std::nextafter(middle, low_value)).bits, low) << middle;
      ASSERT_EQ(T(std::nextafter(middle, high_value)).bits, high) << middle;
    }
  }
}

TEST(BFloat16Test, RoundsToNearestEven) { ExpectRoundsToNearestEven<BFloat16>(0x7f7f); }

TEST(Float16Test, RoundsToNearestEven) { ExpectRoundsToNearestEven<Float16>(0x7bff); }

TEST(BFloat16Test, KnownBits) {
  EXPECT_EQ(BFloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(BFloat16(-2.0f).bits, 0xc000);
  EXPECT_EQ(BFloat16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds to infinity
  EXPECT_EQ(BFloat16(-kInfinity).bits, 0xff80);
}

TEST(Float16Test, KnownBits) {
  EXPECT_EQ(Float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(Float16(-2.0f).bits, 0xc000);
  EXPECT_EQ(Float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);  // half way to 2^16: infinity is the even one
  EXPECT_EQ(Float16(-kInfinity).bits, 0xfc00);
  EXPECT_EQ(Float16(0x1p-24f).bits, 1);
  EXPECT_EQ(Float16(0x1p-25f).bits, 0);
}

TEST(HalfTest, NanStaysNan) {
  for (float nan : {std::numeric_limits<float>::quiet_NaN(), std::bit_cast<float>(0x7f800001u),
                    std::bit_cast<float>(0xffffffffu)}) {
    EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(nan))));
    EXPECT_TRUE(std::isnan(static_cast<float>(Float16(nan))));
  }
}

}  // namespace
}  // namespace ops
