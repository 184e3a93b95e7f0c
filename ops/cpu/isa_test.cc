#include "ops/cpu/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

namespace ops::cpu {
namespace {

TEST(IsaTest, TheBaselineRunsEverywhere) {
  EXPECT_EQ(SupportedIsas().front(), Isa::kBaseline);
  EXPECT_EQ(ParseIsa("baseline"), Isa::kBaseline);
}

TEST(IsaTest, TheBestIsUsedUnlessAScopeSaysOtherwise) {
  EXPECT_EQ(CurrentIsa(), SupportedIsas().back());
  {
    const ScopedIsa scope(Isa::kBaseline);
    EXPECT_EQ(CurrentIsa(), Isa::kBaseline);
    std::thread([] { EXPECT_EQ(CurrentIsa(), SupportedIsas().back()); }).join();
  }
  EXPECT_EQ(CurrentIsa(), SupportedIsas().back());
}

TEST(IsaTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    ParseIsa("sse9");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("expected baseline, avx2 or avx512, got 'sse9'"));
  }
}

TEST(IsaTest, WhatTheCpuLacksIsRefused) {
  for (const Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (isa <= SupportedIsas().back()) {
      EXPECT_EQ(ParseIsa(Name(isa)), isa);
    } else {
      EXPECT_THROW(ParseIsa(Name(isa)), std::invalid_argument);
      EXPECT_THROW(ScopedIsa{isa}, std::invalid_argument);
    }
  }
}

}  // namespace
}  // namespace ops::cpu
