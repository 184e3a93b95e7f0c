// Ranks that can't take part in a group, and groups after a failed one; run by mpirun, each test in
// processes of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ddp/duration.h"
#include "ddp/errors.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(MpiBackendTest, AProgramThatStartedMpiForOneThreadIsToldToAllRanks) {
  const TestSetting setting = AllSettings({}).front();
  RunRanks(setting.num_ranks, [&](TestRank& rank) {
    int level = rank.rank() == 1 ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
    MPI_Init_thread(nullptr, nullptr, level, &level);
    const auto start = Clock::now();
    std::string message;
    try {
      rank.Join(setting, {.timeout = 60s});
    } catch (const std::invalid_argument& error) {
      message = error.what();
    }
    EXPECT_THAT(message, HasSubstr("rank 1: MPI was started with MPI_THREAD_SINGLE"));
    EXPECT_LT(Clock::now() - start, 20s);
    MPI_Finalize();
  });
}

// Rank 1 comes to a large all-reduce when the others have given it up.
TEST(MpiBackendTest, MessagesOfAFailedGroupDoNotMeetTheNext) {
  const TestSetting setting = AllSettings({}).front();
  RunRanks(setting.num_ranks, [&](TestRank& rank) {
    constexpr int64_t kNumElements = 1'000'000;
    std::vector<float> given_up(kNumElements, 1), values(kNumElements, 1);
    auto group = rank.Join(setting, {.timeout = 3s});
    group->Barrier()->Wait();
    if (rank.rank() == 1) std::this_thread::sleep_for(4s);
    EXPECT_THROW(group->AllReduce({given_up.data(), kNumElements}, ReduceOp::kSum)->Wait(),
                 CollectiveError);
    group = rank.Join(setting, {});
    group->AllReduce({values.data(), kNumElements}, ReduceOp::kSum)->Wait();
    EXPECT_THAT(values, testing::Each(static_cast<float>(setting.num_ranks)));
  });
}

}  // namespace
}  // namespace ddp
