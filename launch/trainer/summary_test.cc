#include "launch/trainer/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

namespace launch {
namespace {

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

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

TEST(Summary, FilesAreReplacedWhole) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "atomic";
  std::filesystem::create_directory(folder);
  const std::string path = folder / "file";
  WriteFileAtomically(path, "old and long");
  WriteFileAtomically(path, "new");
  EXPECT_EQ(Read(path), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(Summary, UnwritablePathsAreNamed) {
  EXPECT_THROW(CheckWritable("/no/such/folder/file"), std::system_error);
  EXPECT_THROW(CheckWritable(testing::TempDir()), std::system_error);
  EXPECT_THROW(CheckWritable(testing::TempDir() + "/not_there/"), std::system_error);
  EXPECT_THROW(CheckWritable("."), std::system_error);
  EXPECT_NO_THROW(CheckWritable(testing::TempDir() + "/file"));
  EXPECT_NO_THROW(CheckWritable(""));
  try {
    WriteFileAtomically("/no/such/folder/file", "text");
    FAIL() << "nothing was thrown";
  } catch (const std::system_error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("can't write /no/such/folder/file"));
  }
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
