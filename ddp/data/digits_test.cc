#include "ddp/data/digits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "ddp/data/digit_glyphs.h"

namespace ddp {
namespace {

using ops::Shape;
using Split = DrawnDigits::Split;

constexpr int64_t kPixels = DrawnDigits::kSide * DrawnDigits::kSide;

std::vector<int64_t> FirstIndices(int64_t count) {
  std::vector<int64_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

std::vector<float> InputsOf(const DrawnDigits::Options& options) {
  return DrawnDigits(options).GetBatch(FirstIndices(50)).inputs.ToVector<float>();
}

TEST(DrawnDigitsTest, AnExampleDependsOnItsIndexAlone) {
  const DrawnDigits dataset({.size = 100, .split = Split::kTrain, .seed = 3});
  const Batch all = dataset.GetBatch(FirstIndices(100));
  EXPECT_EQ(all.inputs.Describe(), "float32[100, 1, 28, 28]");
  EXPECT_EQ(all.targets.Describe(), "int64[100]");
  for (int64_t index : {99, 0, 41}) {
    const Example example = dataset.Get(index);
    EXPECT_EQ(example.input.shape(), (Shape{1, 28, 28}));
    EXPECT_EQ(example.target.shape(), Shape{});
    EXPECT_EQ(example.input.ToVector<float>(),
              all.inputs.Slice(index, index + 1).ToVector<float>());
    EXPECT_EQ(example.target.Item(), all.targets.ToVector<int64_t>()[index]);
  }
  EXPECT_THROW(dataset.Get(100), std::out_of_range);
  EXPECT_THROW(dataset.Get(-1), std::out_of_range);
}

TEST(DrawnDigitsTest, SplitsAndSeedsDiffer) {
  const auto train = InputsOf({.size = 50, .split = Split::kTrain, .seed = 0});
  EXPECT_EQ(train, InputsOf({.size = 70, .split = Split::kTrain, .seed = 0}));
  EXPECT_NE(train, InputsOf({.size = 50, .split = Split::kTest, .seed = 0}));
  EXPECT_NE(train, InputsOf({.size = 50, .split = Split::kTrain, .seed = 1}));
}

TEST(DrawnDigitsTest, ClassesComeEquallyOften) {
  const Batch batch = DrawnDigits({.size = 2000}).GetBatch(FirstIndices(2000));
  std::array<int, 10> counts{};
  for (int64_t digit : batch.targets.ToVector<int64_t>()) ++counts.at(digit);
  for (int count : counts) {
    EXPECT_GT(count, 140);
    EXPECT_LT(count, 260);
  }
}

// Ink in the middle, none at the corners.
TEST(DrawnDigitsTest, DigitsLieWithinThePicture) {
  const DrawnDigits dataset({.size = 500});
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const auto pixels = dataset.Get(i).input.ToVector<float>();
    const auto ink = std::ranges::count_if(pixels, [](float pixel) { return pixel > 1; });
    EXPECT_GT(ink, 10) << i;
    EXPECT_LT(ink, kPixels / 2) << i;
    EXPECT_LT(pixels.front(), 0.2f) << i;
    EXPECT_LT(pixels.back(), 0.2f) << i;
  }
}

// The class whose mean picture is nearest: right more often than not, but not a problem that is
// solved by looking at single pixels.
TEST(DrawnDigitsTest, ClassesCanBeTold) {
  constexpr int64_t kTrain = 4000, kTest = 1000;
  const Batch train = DrawnDigits({.size = kTrain}).GetBatch(FirstIndices(kTrain));
  std::vector<std::vector<double>> means(10, std::vector<double>(kPixels));
  std::array<int, 10> counts{};
  for (int64_t i = 0; i < kTrain; ++i) {
    const int64_t digit = train.targets.data<int64_t>()[i];
    ++counts[digit];
    for (int64_t p = 0; p < kPixels; ++p) {
      means[digit][p] += train.inputs.data<float>()[i * kPixels + p];
    }
  }
  const DrawnDigits test({.size = kTest, .split = Split::kTest});
  int right = 0;
  for (int64_t i = 0; i < kTest; ++i) {
    const Example example = test.Get(i);
    const auto distance = [&](int digit) {
      double sum = 0;
      for (int64_t p = 0; p < kPixels; ++p) {
        const double difference = example.input.data<float>()[p] - means[digit][p] / counts[digit];
        sum += difference * difference;
      }
      return sum;
    };
    int nearest = 0;
    for (int digit = 1; digit < 10; ++digit) {
      if (distance(digit) < distance(nearest)) nearest = digit;
    }
    right += nearest == example.target.Item();
  }
  EXPECT_GT(right, kTest / 2);
  EXPECT_LT(right, kTest * 9 / 10);
}

TEST(DigitGlyphsTest, EveryDigitIsWrittenInSeveralWays) {
  for (int digit = 0; digit < 10; ++digit) {
    EXPECT_GE(GlyphsOf(digit).size(), 2u);
    for (const Glyph& glyph : GlyphsOf(digit)) {
      for (const Stroke& stroke : glyph) {
        EXPECT_GE(stroke.size(), 2u);
        for (Point point : stroke) {
          EXPECT_LE(std::abs(point.x), 0.65f);
          EXPECT_LE(std::abs(point.y), 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ddp
