#include "ddp/replicated/bucket_plan.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ddp {
namespace {

using ops::DType;
using ops::NamedTensor;
using ops::Tensor;

std::vector<NamedTensor> Parameters(const std::vector<std::pair<int64_t, DType>>& sizes) {
  std::vector<NamedTensor> parameters;
  for (const auto& [size, dtype] : sizes) {
    parameters.push_back({"p", Tensor::Empty({size}, {.dtype = dtype})});
  }
  return parameters;
}

std::vector<std::vector<int>> Members(const std::vector<BucketPlan>& buckets) {
  std::vector<std::vector<int>> members;
  for (const BucketPlan& bucket : buckets) {
    members.emplace_back();
    for (const auto& slot : bucket.slots) members.back().push_back(slot.parameter);
  }
  return members;
}

using Lists = std::vector<std::vector<int>>;

TEST(BucketPlanTest, ReverseOrderAndSmallFirst) {
  const auto parameters = Parameters({{100, DType::kFloat32},  // 400 bytes
                                      {100, DType::kFloat32},
                                      {16, DType::kFloat32},  // 64
                                      {16, DType::kFloat32},
                                      {16, DType::kFloat32}});
  const auto buckets = PlanBuckets(parameters, {.bytes = 912, .first_bytes = 128});
  EXPECT_EQ(Members(buckets), (Lists{{4, 3}, {2, 1, 0}}));
  EXPECT_EQ(buckets[0].num_bytes, 128);
  EXPECT_EQ(buckets[1].slots[1].offset_bytes, 64);
  EXPECT_EQ(buckets[1].slots[2].offset_bytes, 64 + 448);  // 400 bytes end within a cache line
  EXPECT_EQ(buckets[1].num_bytes, 64 + 448 + 400);
}

TEST(BucketPlanTest, TheLimitIsHardButForOneLargerGradient) {
  const auto parameters = Parameters({{16, DType::kFloat32},
                                      {1000, DType::kFloat32},
                                      {16, DType::kFloat32},
                                      {16, DType::kFloat32},
                                      {17, DType::kFloat32}});
  EXPECT_EQ(Members(PlanBuckets(parameters, {.bytes = 128, .first_bytes = 128})),
            (Lists{{4}, {3, 2}, {1}, {0}}));
  EXPECT_EQ(Members(PlanBuckets(parameters, {.bytes = 1, .first_bytes = 1})),
            (Lists{{4}, {3}, {2}, {1}, {0}}));
  EXPECT_EQ(Members(PlanBuckets(parameters, {})), (Lists{{4, 3, 2, 1, 0}}));
}

TEST(BucketPlanTest, TypesHaveBucketsOfTheirOwn) {
  const auto parameters = Parameters({{4, DType::kFloat32},
                                      {4, DType::kBFloat16},
                                      {4, DType::kFloat32},
                                      {4, DType::kBFloat16},
                                      {4, DType::kFloat64}});
  const auto buckets = PlanBuckets(parameters, {});
  EXPECT_EQ(Members(buckets), (Lists{{4}, {3, 1}, {2, 0}}));
  EXPECT_EQ(buckets[0].dtype, DType::kFloat64);
  EXPECT_EQ(buckets[1].dtype, DType::kBFloat16);
  EXPECT_EQ(buckets[2].dtype, DType::kFloat32);
}

TEST(BucketPlanTest, EmptyGradientsHaveAPlaceToo) {
  const auto buckets = PlanBuckets(Parameters({{0, DType::kFloat32}, {0, DType::kFloat32}}), {});
  EXPECT_EQ(Members(buckets), (Lists{{1, 0}}));
  EXPECT_EQ(buckets[0].num_bytes, 0);
  EXPECT_TRUE(PlanBuckets({}, {}).empty());
}

TEST(BucketPlanTest, LimitsMustBePositive) {
  EXPECT_THROW(PlanBuckets({}, {.bytes = 0}), std::invalid_argument);
  EXPECT_THROW(PlanBuckets({}, {.first_bytes = -1}), std::invalid_argument);
}

}  // namespace
}  // namespace ddp
