#include "launch/agent/error_file.h"

#include <gtest/gtest.h>

#include <csignal>
#include <nlohmann/json.hpp>

namespace launch {
namespace {

TEST(ErrorFile, SaysWhoFailedWithWhat) {
  RankEnd killed, threw;
  killed.rank = 0;
  killed.wait_status = SIGKILL;
  threw.rank = 1;
  threw.wait_status = 1 << 8;
  threw.report = RankReport{{}, {}, "a \"quoted\" \xff reason"};
  const Verdict verdict{137, "rank 0 failed", 0, 2, {killed, threw}};
  const auto json = nlohmann::json::parse(ErrorFileText(verdict, "node7", 1700000000));
  EXPECT_EQ(json["exit_code"], 137);
  EXPECT_EQ(json["reason"], "rank 0 failed");
  EXPECT_EQ(json["failed_rank"], 0);
  EXPECT_EQ(json["restarts"], 2);
  EXPECT_EQ(json["host"], "node7");
  EXPECT_EQ(json["time"], 1700000000);
  EXPECT_EQ(json["ranks"][0]["exit_code"], 137);
  EXPECT_FALSE(json["ranks"][0].contains("reason"));
  EXPECT_EQ(json["ranks"][1]["exit_code"], 1);
  EXPECT_EQ(json["ranks"][1]["reason"], "a \"quoted\" \xEF\xBF\xBD reason");
}

TEST(ErrorFile, NamesThePathThatCannotBeWritten) {
  try {
    WriteErrorFile("/no/such/folder/error.json", Verdict{});
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("/no/such/folder/error.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace launch
