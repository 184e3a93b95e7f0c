#include "ddp/collectives/flight_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

namespace ddp {
namespace {

using nlohmann::json;
using std::chrono::microseconds;

FlightRecorder::Identity SomeRank() {
  return {.group = "world", .backend = "shm", .rank = 1, .size = 3, .host = "node7"};
}

Call AllReduceOf(int64_t num_elements, int64_t sequence_number) {
  Call call;
  call.kind = OperationKind::kAllReduce;
  call.num_elements = num_elements;
  call.sequence_number = sequence_number;
  return call;
}

json Read(const FlightRecorder& recorder) { return json::parse(recorder.ToJson()); }

TEST(FlightRecorder, SaysWhoseItIs) {
  const FlightRecorder recorder(SomeRank());
  const json record = Read(recorder);
  EXPECT_EQ(record["group"], "world");
  EXPECT_EQ(record["backend"], "shm");
  EXPECT_EQ(record["rank"], 1);
  EXPECT_EQ(record["size"], 3);
  EXPECT_EQ(record["host"], "node7");
  EXPECT_EQ(record["pid"], getpid());
  EXPECT_EQ(record["failure"], "");
  EXPECT_EQ(record["num_operations"], 0);
  EXPECT_EQ(record["operations"], json::array());
}

TEST(FlightRecorder, FollowsAnOperation) {
  FlightRecorder recorder(SomeRank());
  const auto issued = Clock::now();
  const int64_t id = recorder.Begin(AllReduceOf(1024, 17), 4096, issued);
  json operation = Read(recorder)["operations"][0];
  EXPECT_EQ(operation["state"], "issued");
  EXPECT_EQ(operation["operation"], "all_reduce");
  EXPECT_EQ(operation["call"], "all_reduce #17 (float32[1024], sum)");
  EXPECT_EQ(operation["sequence_number"], 17);
  EXPECT_EQ(operation["num_bytes"], 4096);
  EXPECT_EQ(operation["started_unix_ns"], 0);
  EXPECT_FALSE(operation.contains("peer"));
  EXPECT_FALSE(operation.contains("error"));

  recorder.Started(id, issued + microseconds(5));
  operation = Read(recorder)["operations"][0];
  EXPECT_EQ(operation["state"], "started");
  EXPECT_EQ(operation["ended_unix_ns"], 0);

  recorder.Ended(id, issued + microseconds(25));
  operation = Read(recorder)["operations"][0];
  EXPECT_EQ(operation["state"], "done");
  const int64_t began = operation["issued_unix_ns"];
  EXPECT_EQ(operation["started_unix_ns"], began + 5000);
  EXPECT_EQ(operation["ended_unix_ns"], began + 25000);
}

TEST(FlightRecorder, TimesAreUnixTime) {
  FlightRecorder recorder(SomeRank());
  const auto now = [] { return std::chrono::system_clock::now().time_since_epoch().count(); };
  const int64_t before = now();
  recorder.Begin(AllReduceOf(1, 0), 4, Clock::now());
  const json record = Read(recorder);
  const int64_t second = 1'000'000'000;  // the system's clock may be set meanwhile, a little
  EXPECT_GE(record["operations"][0]["issued_unix_ns"], before - second);
  EXPECT_GE(record["written_unix_ns"], record["operations"][0]["issued_unix_ns"]);
  EXPECT_LE(record["written_unix_ns"], now() + second);
}

TEST(FlightRecorder, KeepsErrors) {
  FlightRecorder recorder(SomeRank());
  Call call;
  call.kind = OperationKind::kReceive;
  call.num_elements = 3;
  const int64_t id = recorder.Begin(call, 12, Clock::now(), 2);
  recorder.Ended(id, Clock::now(), "lost rank 2: \xff");
  recorder.Failed("lost rank 2: connection closed");
  recorder.Failed("a later reason");
  const json record = Read(recorder);
  EXPECT_EQ(record["failure"], "lost rank 2: connection closed");
  EXPECT_EQ(record["operations"][0]["state"], "failed");
  EXPECT_EQ(record["operations"][0]["peer"], 2);
  EXPECT_EQ(record["operations"][0]["error"], "lost rank 2: \uFFFD");
}

TEST(FlightRecorder, KeepsTheLast) {
  FlightRecorder recorder(SomeRank());
  const int64_t num_operations = FlightRecorder::kCapacity + 10;
  for (int64_t i = 0; i < num_operations; ++i) {
    recorder.Begin(AllReduceOf(1, 100 + i), 4, Clock::now());
  }
  recorder.Ended(3, Clock::now());  // overwritten: by one that hasn't ended
  const json record = Read(recorder);
  EXPECT_EQ(record["num_operations"], num_operations);
  const json& operations = record["operations"];
  ASSERT_EQ(operations.size(), FlightRecorder::kCapacity);
  for (int64_t i = 0; i < FlightRecorder::kCapacity; ++i) {
    EXPECT_EQ(operations[i]["sequence_number"], 110 + i);
    EXPECT_EQ(operations[i]["state"], "issued");
  }
}

// For ThreadSanitizer: what is read is one operation, not halves of two.
TEST(FlightRecorder, IsReadWhileItRecords) {
  FlightRecorder recorder(SomeRank());
  std::thread writer([&] {
    for (int64_t i = 0; i < 20'000; ++i) {
      const int64_t id = recorder.Begin(AllReduceOf(i, i), 4 * i, Clock::now());
      recorder.Started(id, Clock::now());
      recorder.Ended(id, Clock::now(),
                     i % 3 == 0 ? "an error that is long enough for the heap" : "");
    }
  });
  for (int i = 0; i < 20; ++i) {
    const json record = Read(recorder);
    for (const json& operation : record["operations"]) {
      const int64_t sequence_number = operation["sequence_number"];
      EXPECT_EQ(operation["num_bytes"], 4 * sequence_number);
      EXPECT_EQ(operation["state"] == "failed", operation.contains("error"));
    }
  }
  writer.join();
}

TEST(FlightRecorder, WritesItsFile) {
  const std::string directory = testing::TempDir() + "/records";
  std::filesystem::create_directory(directory);
  FlightRecorder recorder(SomeRank());
  recorder.Begin(AllReduceOf(1, 5), 4, Clock::now());
  const std::string path = recorder.WriteTo(directory);
  EXPECT_EQ(path, directory + "/flight_record_world_rank1.json");
  std::ifstream file(path);
  EXPECT_EQ(json::parse(file)["operations"][0]["sequence_number"], 5);
  EXPECT_THROW(recorder.WriteTo(directory + "/absent"), std::system_error);

  const FlightRecorder subgroup({.group = "world/1", .backend = "shm"});
  EXPECT_EQ(subgroup.WriteTo(directory), directory + "/flight_record_world_1_rank0.json");
}

}  // namespace
}  // namespace ddp
