#include "ddp/data/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace ddp {
namespace {

Batch All(const Dataset& dataset) {
  std::vector<int64_t> indices(dataset.size());
  std::iota(indices.begin(), indices.end(), 0);
  return dataset.GetBatch(indices);
}

TEST(SyntheticTest, RegressionIsNormalInputsAndTargets) {
  const Batch batch = All(SyntheticRegression(1000, {5}, {2}, /*seed=*/1));
  EXPECT_EQ(batch.inputs.Describe(), "float32[1000, 5]");
  EXPECT_EQ(batch.targets.Describe(), "float32[1000, 2]");
  for (const auto& values : {batch.inputs.ToVector<double>(), batch.targets.ToVector<double>()}) {
    double sum = 0, squares = 0;
    for (double value : values) {
      sum += value;
      squares += value * value;
    }
    EXPECT_NEAR(sum / values.size(), 0, 0.1);
    EXPECT_NEAR(squares / values.size(), 1, 0.15);
  }
}

TEST(SyntheticTest, ClassificationHasAllClasses) {
  const Batch batch = All(SyntheticClassification(1000, {1, 4, 4}, 3));
  EXPECT_EQ(batch.inputs.Describe(), "float32[1000, 1, 4, 4]");
  EXPECT_EQ(batch.targets.Describe(), "int64[1000]");
  std::array<int, 3> counts{};
  for (int64_t target : batch.targets.ToVector<int64_t>()) ++counts.at(target);
  for (int count : counts) EXPECT_GT(count, 250);
}

TEST(SyntheticTest, DependsOnTheSeedAlone) {
  const auto inputs = [](uint64_t seed) {
    return All(SyntheticRegression(4, {3}, {1}, seed)).inputs.ToVector<float>();
  };
  EXPECT_EQ(inputs(7), inputs(7));
  EXPECT_NE(inputs(7), inputs(8));
  const Batch batch = All(SyntheticRegression(4, {3}, {3}));
  EXPECT_NE(batch.inputs.ToVector<float>(), batch.targets.ToVector<float>());
}

TEST(SyntheticTest, NeedsAClass) {
  EXPECT_THROW(SyntheticClassification(1, {1}, 0), std::invalid_argument);
}

}  // namespace
}  // namespace ddp
