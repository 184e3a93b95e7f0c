#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "launch/testing/subprocess.h"

namespace launch {
namespace {

TEST(Tutorial, EachRankPrintsItsLosses) {
  const ProgramOutput output = RunProgram({"launch/tutorial"});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.err, "");
  std::vector<std::string> lines = output.out_lines();
  std::sort(lines.begin(), lines.end());
  const auto line = [](const std::string& start) {
    return testing::MatchesRegex(start + ", Loss: [0-9]\\.[0-9][0-9][0-9][0-9]");
  };
  EXPECT_THAT(lines, testing::ElementsAre(line("Rank 0, Epoch 0"), line("Rank 0, Epoch 1"),
                                          line("Rank 0, Epoch 2"), line("Rank 1, Epoch 0"),
                                          line("Rank 1, Epoch 1"), line("Rank 1, Epoch 2")));
}

}  // namespace
}  // namespace launch
