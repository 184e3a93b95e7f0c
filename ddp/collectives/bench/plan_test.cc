#include "ddp/collectives/bench/plan.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace ddp::bench {
namespace {

using Sizes = std::vector<int64_t>;

TEST(ParseSizes, Ranges) {
  EXPECT_EQ(ParseSizes("4096"), Sizes({4096}));
  EXPECT_EQ(ParseSizes("4:256"), Sizes({4, 16, 64, 256}));
  EXPECT_EQ(ParseSizes("1K:8K:2"), Sizes({1024, 2048, 4096, 8192}));
  EXPECT_EQ(ParseSizes("3:100:10"), Sizes({3, 30}));
  EXPECT_EQ(ParseSizes("4:64M").back(), 64 << 20);
  EXPECT_EQ(ParseSizes("2G"), Sizes({int64_t{2} << 30}));
}

TEST(ParseSizes, RefusesOthers) {
  for (const char* text : {"", "x", "0", "-4", "4:", ":4", "4:64Q", "4:64MB", "4:64:1", "64:4",
                           "4:64:2:2", "9999999999999999999", "9999999999G"}) {
    EXPECT_THROW(ParseSizes(text), std::invalid_argument) << text;
  }
}

TEST(Plan, KnowsNames) {
  EXPECT_EQ(ParseOperations("all_reduce,all_to_all"),
            std::vector({OperationKind::kAllReduce, OperationKind::kAllToAll}));
  EXPECT_EQ(ParseDType("bfloat16"), ops::DType::kBFloat16);
  EXPECT_EQ(ParseReduceOp("max"), ReduceOp::kMax);
}

TEST(Plan, ListsNamesThatItKnows) {
  try {
    ParseOperations("all_reduce,scatter");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "unknown operation 'scatter'; known are all_reduce, all_gather, reduce_scatter, "
                 "broadcast, all_to_all");
  }
  EXPECT_THROW(ParseDType("float31"), std::invalid_argument);
  EXPECT_THROW(ParseReduceOp(""), std::invalid_argument);
}

}  // namespace
}  // namespace ddp::bench
