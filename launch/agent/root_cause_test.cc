#include "launch/agent/root_cause.h"

#include <gtest/gtest.h>

#include <csignal>

namespace launch {
namespace {

TimePoint At(int milliseconds) { return TimePoint(std::chrono::milliseconds(milliseconds)); }
int Exit(int code) { return code << 8; }  // waitpid's encoding; a signal is its own number

RankEnd Ended(int rank, int status, int ms) {
  return {.rank = rank, .wait_status = status, .time = At(ms), .report = std::nullopt};
}
RankEnd Threw(int rank, int ms, const std::string& reason, std::optional<int> lost_peer = {}) {
  RankEnd end = Ended(rank, Exit(1), ms + 5);
  end.report = RankReport{At(ms), lost_peer, reason};
  return end;
}
RankEnd Stopped(int rank, int status, int ms) {
  RankEnd end = Ended(rank, status, ms);
  end.stop_signal = SIGTERM;
  return end;
}

struct Case {
  std::string name;
  std::vector<RankEnd> ends;
  int exit_code;
  std::string reason;
};

class RootCauseTable : public testing::TestWithParam<Case> {};

TEST_P(RootCauseTable, Picks) {
  const std::optional<Failure> failure = RootCause(GetParam().ends);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->exit_code, GetParam().exit_code);
  EXPECT_EQ(failure->reason, GetParam().reason);
}

RankEnd KilledByAgent(int rank, int ms) {
  RankEnd end = Stopped(rank, SIGKILL, ms);
  end.was_killed = true;
  return end;
}

RankEnd Interrupted(int rank, int ms) {
  RankEnd end = Ended(rank, SIGINT, ms);
  end.stop_signal = SIGINT;
  return end;
}

// Its peers were ended for what it had told, and it with them.
RankEnd ThrewAndStopped(int rank, int ms, const std::string& reason) {
  RankEnd end = Threw(rank, ms, reason);
  end.wait_status = end.stop_signal = SIGTERM;
  return end;
}

INSTANTIATE_TEST_SUITE_P(
    All, RootCauseTable,
    testing::Values(
        Case{"ExitCode", {Ended(0, 0, 1), Ended(1, Exit(3), 2)}, 3, "rank 1 failed: exit code 3"},
        Case{"Signal",
             {Ended(0, SIGSEGV, 2), Ended(1, 0, 1)},
             139,
             "rank 0 failed: killed by signal 11 (Segmentation fault)"},
        Case{"Exception", {Threw(1, 4, "boom"), Stopped(0, SIGTERM, 6)}, 1, "rank 1 failed: boom"},
        Case{"StoppedWhileItFailed",
             {ThrewAndStopped(1, 4, "boom"), Stopped(0, SIGTERM, 6)},
             1,
             "rank 1 failed: boom"},
        Case{"FirstOfTwo", {Threw(0, 7, "later"), Threw(1, 4, "first")}, 1, "rank 1 failed: first"},
        Case{"ConsequenceSeenFirst",
             {Threw(0, 4, "lost rank 1: connection closed", 1), Ended(1, SIGKILL, 20)},
             137,
             "rank 1 failed: killed by signal 9 (Killed)"},
        Case{"CauseReportedLaterThanConsequence",
             {Threw(0, 4, "lost rank 1", 1), Threw(1, 9, "boom")},
             1,
             "rank 1 failed: boom"},
        Case{"AllLostEachOther",
             {Threw(0, 9, "lost rank 1", 1), Threw(1, 4, "lost rank 0", 0)},
             1,
             "rank 1 failed: lost rank 0"},
        Case{"StoppedRanksAreNoCause",
             {Stopped(0, SIGTERM, 1), Stopped(1, Exit(1), 2), KilledByAgent(2, 3),
              Ended(3, Exit(7), 5)},
             7,
             "rank 3 failed: exit code 7"},
        Case{"KilledByOthersAfterStop",
             {Threw(0, 1, "lost rank 1", 1), Stopped(1, SIGKILL, 5)},
             137,
             "rank 1 failed: killed by signal 9 (Killed)"},
        Case{"LeftEarly",
             {Ended(1, 0, 1), Threw(0, 2, "lost rank 1: connection closed", 1)},
             1,
             "rank 1 left early: rank 0 still needed it: lost rank 1: connection closed"},
        Case{"LeftEarlyToBeRequeued",
             {Ended(1, Exit(75), 1), Threw(0, 2, "lost rank 1", 1)},
             1,
             "rank 1 left early: rank 0 still needed it: lost rank 1"},
        Case{"InterruptedLikeAll",
             {Interrupted(0, 1), Ended(1, Exit(3), 5)},
             3,
             "rank 1 failed: exit code 3"}),
    [](const auto& info) { return info.param.name; });

TEST(RootCause, NobodyFailed) {
  EXPECT_FALSE(RootCause({Ended(0, 0, 1), Ended(1, 0, 2)}));
  EXPECT_FALSE(RootCause({}));
  EXPECT_FALSE(RootCause({Ended(0, Exit(75), 1), Ended(1, 0, 2)})) << "asks to be requeued";
}

TEST(RankReport, SurvivesTheWay) {
  const RankReport report{At(12), 3, "lost rank 3:\nconnection closed\n"};
  const std::string line = Encode(report);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const std::optional<RankReport> read = Decode(line);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->time, report.time);
  EXPECT_EQ(read->lost_peer, 3);
  EXPECT_EQ(read->reason, "lost rank 3: connection closed");
  EXPECT_EQ(Decode(Encode({At(1), {}, "x"}))->lost_peer, std::nullopt);
}

TEST(RankReport, ProgressIsAStep) {
  EXPECT_EQ(EncodeProgress(1200), "progress 1200\n");
  EXPECT_EQ(DecodeProgress("progress 1200"), 1200);
  for (const char* text :
       {"", "progress", "progress ", "progress x", "progress 1 2", "1000 1 no"}) {
    EXPECT_FALSE(DecodeProgress(text)) << text;
  }
}

TEST(RankReport, LongReasonsFitAPipe) {
  EXPECT_EQ(Encode({At(1), {}, std::string(100000, 'x')}).size(), 4096u);
}

TEST(RankReport, OtherTextIsNoReport) {
  for (const char* text : {"", "boom", "12", "12 x reason", "12 3"}) {
    EXPECT_FALSE(Decode(text)) << text;
  }
}

}  // namespace
}  // namespace launch
