// The way from a group that fails, over its records, to the rank that is to blame.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ddp/collectives/desync.h"
#include "ddp/collectives/flight_record.h"
#include "ddp/collectives/testing.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;

std::vector<FlightRecord> ReadRecords(const std::string& directory) {
  std::vector<FlightRecord> records;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path());
    records.push_back(ParseFlightRecord({std::istreambuf_iterator<char>(file), {}}));
  }
  return records;
}

TEST(Desync, OfAGroupOfWhichOneRankIsBehind) {
  const std::string directory = testing::TempDir() + "/records";
  std::filesystem::create_directories(directory);
  RunRanks(3, [&](TestRank& rank) {
    const auto group = rank.Join({.flight_record_dir = directory});
    group->Barrier()->Wait();
    const std::string failed = "failed";
    if (rank.rank() == 2) {
      rank.store()->Wait({failed + "0", failed + "1"}, 1min);
      group->WriteFlightRecord(directory);  // as on a signal
      return;
    }
    float value = 1;
    const auto work = group->AllReduce({&value, 1}, ReduceOp::kSum, 1s);
    EXPECT_THROW(work->Wait(), CollectiveError);
    rank.store()->Set(failed + std::to_string(rank.rank()), "");
  });
  const std::string text = DescribeDesync(ReadRecords(directory));
  EXPECT_THAT(text,
              testing::ContainsRegex(
                  R"(all_reduce #2 \(float32\[1\], sum\) failed on ranks 0, 1 after [0-9.]+ s)"));
  EXPECT_THAT(text, testing::HasSubstr("rank 2 has not issued it: its last operation, barrier #1, "
                                       "ended "));
  EXPECT_THAT(text, testing::EndsWith("Rank 2 holds the others up.\n"));
}

}  // namespace
}  // namespace ddp
