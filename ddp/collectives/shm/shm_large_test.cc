// Buffers of more elements than 32 bits count.
#include <gtest/gtest.h>

#include <cstring>

#include "ddp/collectives/shm/testing.h"

namespace ddp {
namespace {

constexpr int64_t kElements = (int64_t{1} << 31) + 8;
// Around what 32 bits count, and the ends.
constexpr int64_t kPlaces[] = {0, (int64_t{1} << 31) - 1, int64_t{1} << 31, kElements - 1};

TEST(Large, AllReduceAndBroadcast) {
  shm::RunRanks(2, [](shm::TestRank& rank) {
    // One rank's lies where the other reaches it.
    const ops::Memory memory =
        rank.rank() == 0 ? ops::AllocateMemory(kElements) : rank.backend().Allocate(kElements);
    auto* const values = reinterpret_cast<uint8_t*>(memory.get());
    std::memset(values, 1, kElements);
    const Buffer buffer{values, kElements, ops::DType::kUInt8};
    for (const int64_t i : kPlaces) values[i] = 3 + rank.rank();
    rank.Run({.kind = OperationKind::kAllReduce, .input = buffer, .output = buffer});
    for (const int64_t i : kPlaces) EXPECT_EQ(values[i], 7) << i;
    EXPECT_EQ(values[1], 2);

    for (const int64_t i : kPlaces) values[i] = 9 + rank.rank();
    rank.Run({.kind = OperationKind::kBroadcast, .output = buffer});
    for (const int64_t i : kPlaces) EXPECT_EQ(values[i], 9) << i;

    const Operation send{.kind = OperationKind::kSend, .input = buffer, .root = 1};
    const Operation receive{.kind = OperationKind::kReceive, .output = buffer, .root = 0};
    for (const int64_t i : kPlaces) values[i] = 5 + rank.rank();
    rank.Exchange({rank.rank() == 0 ? send : receive});
    for (const int64_t i : kPlaces) EXPECT_EQ(values[i], 5) << i;
  });
}

}  // namespace
}  // namespace ddp
