#include "launch/trainer/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace launch {
namespace {

TEST(Summary, Json) {
  Summary summary;
  summary.model = "mlp";
  summary.eval_accuracy = 0.975;
  summary.loss_last = std::numeric_limits<double>::quiet_NaN();
  summary.peak_rss_bytes = {1, 2};
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  EXPECT_EQ(json["model"], "mlp");
  EXPECT_EQ(json["eval_accuracy"], 0.975);
  EXPECT_TRUE(json["loss_last"].is_null());  // JSON has no NaN
  EXPECT_EQ(json["peak_rss_bytes"], nlohmann::json({1, 2}));
}

TEST(Summary, RegressionHasNoAccuracy) {
  EXPECT_TRUE(nlohmann::json::parse(SummaryJson({}))["eval_accuracy"].is_null());
  EXPECT_THAT(FormatSummary({}), testing::Not(testing::HasSubstr("accuracy")));
}

TEST(Summary, LanguageHasPerplexityAndTokens) {
  Summary summary;
  summary.eval_perplexity = 7.5;
  summary.tokens_per_second = 1234;
  const auto json = nlohmann::json::parse(SummaryJson(summary));
  EXPECT_EQ(json["eval_perplexity"], 7.5);
  EXPECT_EQ(json["tokens_per_second"], 1234);
  EXPECT_THAT(FormatSummary(summary), testing::AllOf(testing::HasSubstr("1234 tokens/s"),
                                                     testing::HasSubstr("test perplexity 7.5")));
}

TEST(Summary, CountsTheStepsThatWereLeftOut) {
  Summary summary;
  EXPECT_THAT(FormatSummary(summary), testing::Not(testing::HasSubstr("left out")));
  summary.skipped_steps = 3;
  EXPECT_EQ(nlohmann::json::parse(SummaryJson(summary))["skipped_steps"], 3);
  EXPECT_THAT(FormatSummary(summary),
              testing::HasSubstr("\n3 steps left out, as gradients were not finite"));
}

TEST(Summary, LossesReadBackExactly) {
  const std::vector<float> losses = {2.302585f, 0.1f, 1e-20f};
  std::istringstream text(LossesText(losses));
  for (const float loss : losses) {
    std::string line;
    ASSERT_TRUE(std::getline(text, line));
    EXPECT_EQ(std::strtof(line.c_str(), nullptr), loss);
  }
}

}  // namespace
}  // namespace launch
