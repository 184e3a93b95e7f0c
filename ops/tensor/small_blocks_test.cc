#include "ops/tensor/small_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace ops {
namespace {

TEST(SmallBlocksTest, GivesAFreedBlockToTheNextOfItsSize) {
  void* const first = AllocateSmallBlock(100);
  FreeSmallBlock(first, 100);
  void* const second = AllocateSmallBlock(128);  // the same two cache lines
  EXPECT_EQ(second, first);
  void* const other = AllocateSmallBlock(64);
  EXPECT_NE(other, first);
  FreeSmallBlock(second, 128);
  FreeSmallBlock(other, 64);
}

TEST(SmallBlocksTest, BlocksAreAlignedAndApart) {
  for (const size_t num_bytes : {0, 1, 63, 64, 65, 1000, 2048, 2049, 100000}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 20; ++i) {
      blocks.push_back(AllocateSmallBlock(num_bytes));
      std::memset(blocks.back(), i, num_bytes);
      if (num_bytes <= kMaxSmallBytes) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back()) % 64, 0);
      }
    }
    for (int i = 0; i < 20; ++i) {
      const auto* const bytes = static_cast<unsigned char*>(blocks[i]);
      EXPECT_TRUE(std::all_of(bytes, bytes + num_bytes, [=](int byte) { return byte == i; }));
      FreeSmallBlock(blocks[i], num_bytes);
    }
  }
}

// A loader's thread makes tensors and the trainer's frees them, for ever.
TEST(SmallBlocksTest, BlocksThatAnotherThreadFreesComeBack) {
  std::set<void*> seen;
  for (int round = 0; round < 50; ++round) {
    std::vector<void*> blocks(300);
    std::thread([&] {
      for (void*& block : blocks) block = AllocateSmallBlock(192);
    }).join();
    seen.insert(blocks.begin(), blocks.end());
    for (void* block : blocks) FreeSmallBlock(block, 192);
  }
  EXPECT_LT(seen.size(), 1000);
}

TEST(SmallBlocksTest, SharedPointersUseThem) {
  const auto make = [](int value) {
    return std::allocate_shared<int>(SmallBlockAllocator<int>(), value);
  };
  const int* const place = make(1).get();
  const auto again = make(2);
  EXPECT_EQ(again.get(), place);
  EXPECT_EQ(*again, 2);
}

struct FreesAtThreadExit {
  void* block = nullptr;
  ~FreesAtThreadExit() { FreeSmallBlock(block, 64); }
};

TEST(SmallBlocksTest, FreedAfterTheThreadsListsHaveGone) {
  std::thread([] {
    thread_local FreesAtThreadExit late;  // made before the lists, so destroyed after them
    late.block = nullptr;
    late.block = AllocateSmallBlock(64);
  }).join();
  void* const block = AllocateSmallBlock(64);
  EXPECT_NE(block, nullptr);
  FreeSmallBlock(block, 64);
}

}  // namespace
}  // namespace ops
