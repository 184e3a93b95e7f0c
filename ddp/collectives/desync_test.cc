#include "ddp/collectives/desync.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/flight_recorder.h"

namespace ddp {
namespace {

using Operation = FlightRecord::Operation;
using State = Operation::State;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1000 * kSecond;  // when all records were written

int64_t SecondsAgo(double seconds) { return kNow - static_cast<int64_t>(seconds * kSecond); }

Operation Collective(const std::string& kind, int number, const std::string& data, State state,
                     double issued_ago, double ended_ago = 0) {
  const std::string call = kind + " #" + std::to_string(number) + data;
  const bool is_over = state == State::kDone || state == State::kFailed;
  return {.kind = kind,
          .sequence_number = number,
          .call = call,
          .state = state,
          .issued_unix_ns = SecondsAgo(issued_ago),
          .ended_unix_ns = is_over ? SecondsAgo(ended_ago) : 0};
}

Operation Barrier(int number, double ended_ago) {
  return Collective("barrier", number, "", State::kDone, ended_ago, ended_ago);
}
Operation AllReduce(State state, double issued_ago, double ended_ago = 0) {
  return Collective("all_reduce", 17, " (float32[1024], sum)", state, issued_ago, ended_ago);
}
Operation Broadcast(State state, double issued_ago, double ended_ago = 0) {
  return Collective("broadcast", 17, " (float32[8], from rank 0)", state, issued_ago, ended_ago);
}
Operation Message(const std::string& kind, int peer, const std::string& data, State state) {
  const std::string way = kind == "send" ? ", to rank " : ", from rank ";
  Operation operation =
      Collective(kind, 1, " (" + data + way + std::to_string(peer) + ")", state, 3, 2);
  operation.peer = peer;
  return operation;
}

FlightRecord Record(int rank, int size, std::vector<Operation> operations,
                    const std::string& failure = "") {
  return {.group = "world",
          .backend = "shm",
          .rank = rank,
          .size = size,
          .host = "node",
          .pid = 100 + rank,
          .failure = failure,
          .written_unix_ns = kNow,
          .operations = std::move(operations)};
}

struct Case {
  std::string name;
  std::vector<FlightRecord> records;
  std::string expected;  // without the group's name
};

std::vector<Case> Cases() {
  constexpr State kDone = State::kDone, kStarted = State::kStarted, kIssued = State::kIssued,
                  kFailed = State::kFailed;
  const std::vector<Operation> waits = {Barrier(16, 12.4), AllReduce(kStarted, 12.3)};
  const std::vector<Operation> gave_up = {Barrier(16, 12.4), AllReduce(kFailed, 12, 2)};
  const std::string timeout = "rank 0 waited 10 s for rank 1";
  return {
      {"RankBehind",
       {Record(0, 4, waits), Record(1, 4, waits), Record(2, 4, {Barrier(16, 12.4)}),
        Record(3, 4, waits)},
       "(shm, 4 ranks): ranks 0, 1, 3 wait in all_reduce #17 (float32[1024], sum) since 12.3 s; "
       "rank 2 has not issued it: its last operation, barrier #16, ended 12.4 s ago. Rank 2 holds "
       "the others up."},
      {"RanksBehindAtDifferentPlaces",
       {Record(0, 4, waits), Record(1, 4, {Barrier(16, 12)}), Record(2, 4, {Barrier(15, 20)}),
        Record(3, 4, {Barrier(16, 12.5)})},
       "(shm, 4 ranks): rank 0 waits in all_reduce #17 (float32[1024], sum) since 12.3 s; ranks 1, "
       "3 have not issued it: their last operation, barrier #16, ended 12 s ago; rank 2 has not "
       "issued it: its last operation, barrier #15, ended 20 s ago. Ranks 1, 2, 3 hold the others "
       "up."},
      {"NoRecordOfARank",
       {Record(0, 3, waits), Record(2, 3, waits)},
       "(shm, 3 ranks): ranks 0, 2 wait in all_reduce #17 (float32[1024], sum) since 12.3 s; rank "
       "1 left no record. Rank 1 holds the others up, or the record was left out here."},
      {"NeverStarted",
       {Record(0, 2, {Collective("join", 0, "", kStarted, 5)}), Record(1, 2, {})},
       "(shm, 2 ranks): rank 0 waits in join #0 since 5 s; rank 1 has not issued it: it has issued "
       "nothing yet. Rank 1 holds the others up."},
      {"AnotherOperation",
       {Record(0, 3, waits), Record(1, 3, {Barrier(16, 12.4), Broadcast(kStarted, 12)}),
        Record(2, 3, waits)},
       "(shm, 3 ranks): ranks 0, 2 wait in all_reduce #17 (float32[1024], sum) since 12.3 s; rank "
       "1 waits in broadcast #17 (float32[8], from rank 0) since 12 s. Rank 1 is out of step: all "
       "ranks must call the same operations in the same order."},
      {"TwoOfTwoDiffer",
       {Record(0, 2, waits), Record(1, 2, {Broadcast(kFailed, 12, 11)}, "mismatch")},
       "(shm, 2 ranks) failed, first on rank 1, 11 s ago (mismatch): rank 0 waits in all_reduce "
       "#17 (float32[1024], sum) since 12.3 s; broadcast #17 (float32[8], from rank 0) failed on "
       "rank 1 after 1 s. Ranks 0, 1 are out of step: all ranks must call the same operations in "
       "the same order."},
      {"AllInTheSame",
       {Record(0, 2, waits), Record(1, 2, waits)},
       "(shm, 2 ranks): ranks 0, 1 wait in all_reduce #17 (float32[1024], sum) since 12.3 s. All "
       "have come: nobody is to blame, it is stuck inside the operation."},
      {"QueuedBehindTheOneThatWaits",
       {Record(0, 2, {AllReduce(kStarted, 9), Collective("barrier", 18, "", kIssued, 8)}),
        Record(1, 2, {Barrier(16, 10)})},
       "(shm, 2 ranks): rank 0 waits in all_reduce #17 (float32[1024], sum) since 9 s; rank 1 has "
       "not issued it: its last operation, barrier #16, ended 10 s ago. Rank 1 holds the others "
       "up."},
      {"ARootThatHasLeft",
       {Record(0, 3, {Broadcast(kDone, 9, 8)}), Record(1, 3, {Broadcast(kStarted, 9)}),
        Record(2, 3, {Barrier(16, 10)})},
       "(shm, 3 ranks): rank 1 waits in broadcast #17 (float32[8], from rank 0) since 9 s; rank 0 "
       "has done all that it issued: its last operation, broadcast #17 (float32[8], from rank 0), "
       "ended 8 s ago; rank 2 has not issued it: its last operation, barrier #16, ended 10 s ago. "
       "Rank 2 holds the others up."},
      {"PeerLost",
       {Record(0, 3, gave_up, "lost rank 1: connection closed"),
        // Killed: no record. This one came when rank 0 had found out.
        Record(2, 3, {Barrier(16, 12.4), AllReduce(kFailed, 1.5, 1.5)}, "lost rank 1: it died")},
       "(shm, 3 ranks) failed, first on rank 0, 2 s ago (lost rank 1: connection closed): "
       "all_reduce #17 (float32[1024], sum) failed on rank 0 after 10 s; rank 2 issued all_reduce "
       "#17 (float32[1024], sum) 0.5 s after it had failed elsewhere; rank 1 left no record. Rank "
       "1 holds the others up, or the record was left out here."},
      {"TooLate",
       {Record(0, 2, gave_up, timeout),
        Record(1, 2, {Barrier(16, 12.4), AllReduce(kFailed, 0.5, 0.5)}, timeout)},
       "(shm, 2 ranks) failed, first on rank 0, 2 s ago (rank 0 waited 10 s for rank 1): "
       "all_reduce #17 (float32[1024], sum) failed on rank 0 after 10 s; rank 1 issued all_reduce "
       "#17 (float32[1024], sum) 1.5 s after it had failed elsewhere. Rank 1 came too late."},
      {"AllDone",
       {Record(0, 2, {Barrier(16, 1)}), Record(1, 2, {Barrier(16, 1)})},
       "(shm, 2 ranks): ranks 0, 1 have done all that they issued: their last operation, barrier "
       "#16, ended 1 s ago. Nobody holds the others up."},
      {"AChainOfMessages",
       {Record(0, 3, {Message("receive", 1, "float32[4]", kStarted)}),
        Record(1, 3, {Message("receive", 2, "float32[4]", kStarted)}),
        Record(2, 3, {Barrier(16, 10)})},
       "(shm, 3 ranks): rank 0 waits in receive #1 (float32[4], from rank 1) since 3 s; rank 1 "
       "waits in receive #1 (float32[4], from rank 2) since 3 s; rank 2 has not issued its end of "
       "rank 1's receive #1 (float32[4], from rank 2): its last operation, barrier #16, ended 10 s "
       "ago. Rank 2 "
       "holds the others up."},
      {"ACircleOfMessages",
       {Record(0, 2, {Message("receive", 1, "float32[4]", kStarted)}),
        Record(1, 2, {Message("receive", 0, "float32[4]", kStarted)})},
       "(shm, 2 ranks): rank 0 waits in receive #1 (float32[4], from rank 1) since 3 s; rank 1 "
       "waits in receive #1 (float32[4], from rank 0) since 3 s. They wait for each other."},
      {"ACircleThatTimedOut",
       {Record(0, 2, {Message("receive", 1, "float32[4]", kFailed)}),
        Record(1, 2, {Message("receive", 0, "float32[4]", kFailed)})},
       "(shm, 2 ranks): receive #1 (float32[4], from rank 1) failed on rank 0 after 1 s; receive "
       "#1 "
       "(float32[4], from rank 0) failed on rank 1 after 1 s. They wait for each other."},
      {"AMessageOfAnotherSize",
       {Record(0, 2, {Message("receive", 1, "float32[4]", kStarted)}),
        Record(1, 2, {Message("send", 0, "float32[6]", kDone)})},
       "(shm, 2 ranks): rank 0 waits in receive #1 (float32[4], from rank 1) since 3 s; rank 1 has "
       "done all that it issued: its last operation, send #1 (float32[6], to rank 0), ended 2 s "
       "ago. Ranks 0, 1 are out of step: all ranks must call the same operations in the same "
       "order."},
      {"FarAhead",  // its record has forgotten #17
       {Record(0, 2, waits), Record(1, 2, {Barrier(400, 1)})},
       "(shm, 2 ranks): rank 0 waits in all_reduce #17 (float32[1024], sum) since 12.3 s; rank 1 "
       "has done all that it issued: its last operation, barrier #400, ended 1 s ago. All have "
       "come: nobody is to blame, it is stuck inside the operation."},
  };
}

class DesyncTest : public testing::TestWithParam<Case> {};

TEST_P(DesyncTest, SaysWhoIsToBlame) {
  EXPECT_EQ(DescribeDesync(GetParam().records), "Group world " + GetParam().expected + "\n");
}

INSTANTIATE_TEST_SUITE_P(Cases, DesyncTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// Two groups used in different order: each rank waits where the other isn't.
TEST(DescribeDesync, SeveralGroups) {
  FlightRecord a0 = Record(0, 2, {AllReduce(State::kStarted, 5)});
  FlightRecord a1 = Record(1, 2, {Barrier(16, 6)});
  FlightRecord b0 = Record(0, 2, {Barrier(16, 6)});
  FlightRecord b1 = Record(1, 2, {Broadcast(State::kStarted, 5)});
  b0.group = b1.group = "b";
  EXPECT_EQ(
      DescribeDesync({a0, a1, b0, b1}),
      "Group world (shm, 2 ranks): rank 0 waits in all_reduce #17 (float32[1024], sum) since 5 s; "
      "rank 1 has not issued it: its last operation, barrier #16, ended 6 s ago, and it waits in "
      "broadcast #17 (float32[8], from rank 0) of group b. Rank 1 holds the others up.\n"
      "Group b (shm, 2 ranks): rank 1 waits in broadcast #17 (float32[8], from rank 0) since 5 s; "
      "rank 0 has not issued it: its last operation, barrier #16, ended 6 s ago, and it waits in "
      "all_reduce #17 (float32[1024], sum) of group world. Rank 0 holds the others up.\n");
}

std::string ErrorOf(const std::function<void()>& function) {
  try {
    function();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(DescribeDesync, RefusesRecordsThatDontBelongTogether) {
  EXPECT_EQ(ErrorOf([] { DescribeDesync({}); }), "no flight records");
  EXPECT_EQ(ErrorOf([] {
              DescribeDesync({Record(1, 2, {}), Record(1, 2, {})});
            }),
            "two records of rank 1 of group world");
  EXPECT_EQ(ErrorOf([] {
              DescribeDesync({Record(0, 2, {}), Record(1, 4, {})});
            }),
            "records of different jobs: group world has 2 ranks in one and 4 in another");
}

TEST(ParseFlightRecord, ReadsWhatARecorderWrites) {
  FlightRecorder recorder({.group = "b", .backend = "gloo", .rank = 1, .size = 2, .host = "node"});
  Call call;
  call.kind = OperationKind::kSend;
  call.num_elements = 4;
  call.sequence_number = 3;
  const auto issued = Clock::now();
  recorder.Ended(recorder.Begin(call, 16, issued, 0), issued + std::chrono::seconds(1), "lost");
  recorder.Failed("lost rank 0");
  const FlightRecord record = ParseFlightRecord(recorder.ToJson());
  EXPECT_EQ(record.group, "b");
  EXPECT_EQ(record.backend, "gloo");
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.size, 2);
  EXPECT_EQ(record.host, "node");
  EXPECT_EQ(record.failure, "lost rank 0");
  ASSERT_EQ(record.operations.size(), 1);
  const Operation& operation = record.operations[0];
  EXPECT_EQ(operation.kind, "send");
  EXPECT_EQ(operation.call, "send #3 (float32[4], to rank 0)");
  EXPECT_EQ(operation.sequence_number, 3);
  EXPECT_EQ(operation.peer, 0);
  EXPECT_EQ(operation.state, State::kFailed);
  EXPECT_EQ(operation.ended_unix_ns - operation.issued_unix_ns, kSecond);
}

TEST(ParseFlightRecord, SaysWhatIsWrong) {
  const std::string record = FlightRecorder({.group = "g", .backend = "shm"}).ToJson();
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = record;
    return text.replace(text.find(from), from.size(), to);
  };
  const auto error_of = [](const std::string& text) {
    return ErrorOf([&] { ParseFlightRecord(text); });
  };
  EXPECT_EQ(error_of(""), "not JSON");
  EXPECT_EQ(error_of(record.substr(0, record.size() / 2)), "not JSON");
  EXPECT_EQ(error_of("[]"), "not a flight record: \"format\" isn't \"ddp flight record 1\"");
  EXPECT_EQ(error_of(replaced("record 1", "record 9")),
            "not a flight record: \"format\" isn't \"ddp flight record 1\"");
  EXPECT_EQ(error_of(replaced("\"host\"", "\"hosts\"")),
            "not a flight record: key 'host' not found");
  EXPECT_EQ(error_of(replaced("\"rank\": 0", "\"rank\": \"0\"")),
            "not a flight record: type must be number, but is string");
  EXPECT_EQ(error_of(replaced("\"rank\": 0", "\"rank\": 7")), "rank 7 is not in a group of 1");
  EXPECT_EQ(error_of(replaced("\"operations\": []", "\"operations\": [1]")),
            "not a flight record: cannot use at() with number");
}

}  // namespace
}  // namespace ddp
