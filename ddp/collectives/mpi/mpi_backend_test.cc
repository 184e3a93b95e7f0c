// Ranks that can't take part in a group; run by mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <stdexcept>
#include <string>

#include "ddp/collectives/testing.h"
#include "ddp/duration.h"

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

}  // namespace
}  // namespace ddp
