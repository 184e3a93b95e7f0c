#include "launch/text/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace launch {
namespace {

TEST(Text, Bytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(812), "812 B");
  EXPECT_EQ(FormatBytes(1000), "1.0 kB");
  EXPECT_EQ(FormatBytes(61'200'000), "61 MB");
  EXPECT_EQ(FormatBytes(999'600'000), "1.0 GB");
  EXPECT_EQ(FormatBytes(1'440'000'000), "1.4 GB");
  EXPECT_EQ(FormatBytes(std::numeric_limits<int64_t>::max()), "9.2 EB");
}

TEST(Text, Seconds) {
  EXPECT_EQ(FormatSeconds(0.04), "0.0s");
  EXPECT_EQ(FormatSeconds(0.42), "0.4s");
  EXPECT_EQ(FormatSeconds(0.97), "1s");
  EXPECT_EQ(FormatSeconds(59.4), "59s");
  EXPECT_EQ(FormatSeconds(59.6), "1m00s");
  EXPECT_EQ(FormatSeconds(125), "2m05s");
  EXPECT_EQ(FormatSeconds(12000), "3h20m");
  EXPECT_EQ(FormatSeconds(std::numeric_limits<double>::infinity()), "?");
}

TEST(Text, Counts) {
  EXPECT_EQ(FormatCount(1, "rank"), "1 rank");
  EXPECT_EQ(FormatCount(2, "rank"), "2 ranks");
}

TEST(Text, UnknownNamesSuggestOnlyNearOnes) {
  EXPECT_EQ(UnknownName("model", "mpl", {"linear", "mlp"}),
            "unknown model 'mpl'; did you mean 'mlp'? Known: linear, mlp");
  EXPECT_EQ(UnknownName("model", "resnet50", {"linear", "mlp"}),
            "unknown model 'resnet50'; known: linear, mlp");
  EXPECT_EQ(UnknownName("model", "", {"linear", "mlp"}), "unknown model ''; known: linear, mlp");
}

}  // namespace
}  // namespace launch
