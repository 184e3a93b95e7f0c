#include "ops/tensor/block_cache.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

namespace ops {
namespace {

TEST(BlockCacheTest, GivesAFreedBlockToTheNextOfItsSize) {
  BlockCache cache(1 << 20);
  std::byte* const first = cache.Allocate(10000);
  cache.Free(first, 10000);
  EXPECT_GE(cache.idle_bytes(), 10000);
  std::byte* const other = cache.Allocate(20000);
  EXPECT_NE(other, first);
  std::byte* const second = cache.Allocate(10000);
  EXPECT_EQ(second, first);
  EXPECT_EQ(cache.idle_bytes(), 0);
  cache.Free(other, 20000);
  cache.Free(second, 10000);
}

TEST(BlockCacheTest, TheLastFreedComesFirst) {
  BlockCache cache(1 << 20);
  std::byte* const a = cache.Allocate(5000);
  std::byte* const b = cache.Allocate(5000);
  cache.Free(a, 5000);
  cache.Free(b, 5000);
  EXPECT_EQ(cache.Allocate(5000), b);
  EXPECT_EQ(cache.Allocate(5000), a);
  cache.Free(a, 5000);
  cache.Free(b, 5000);
}

TEST(BlockCacheTest, KeepsNoMoreThanItsLimitAndDropsTheOldest) {
  BlockCache cache(100 << 10);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(cache.Allocate(32 << 10));
  for (std::byte* block : blocks) cache.Free(block, 32 << 10);
  EXPECT_EQ(cache.idle_bytes(), 96 << 10);
  for (int i : {3, 2, 1}) EXPECT_EQ(cache.Allocate(32 << 10), blocks[i]);
  for (int i : {3, 2, 1}) cache.Free(blocks[i], 32 << 10);
  cache.Free(cache.Allocate(1 << 20), 1 << 20);  // larger than the limit
  EXPECT_EQ(cache.idle_bytes(), 96 << 10);
}

TEST(BlockCacheTest, BlocksHoldWhatWasAskedForAndStartOnACacheLine) {
  BlockCache cache(64 << 20);
  for (int64_t bytes :
       {int64_t{0}, int64_t{1}, int64_t{513}, int64_t{4097}, int64_t{1000001}, int64_t{9 << 20}}) {
    std::byte* const block = cache.Allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    std::memset(block, 1, bytes);
    cache.Free(block, bytes);
  }
}

TEST(BlockCacheTest, ImpossibleSizesThrow) {
  BlockCache cache(1 << 20);
  EXPECT_THROW(cache.Allocate(INT64_MAX - 1), std::bad_alloc);
}

TEST(BlockCacheTest, ThreadsNeverShareABlock) {
  BlockCache cache(1 << 20);
  const auto use = [&cache](int seed) {
    for (int i = 0; i < 2000; ++i) {
      const int64_t bytes = 5000 + (i * seed) % 3 * 4000;
      std::byte* const block = cache.Allocate(bytes);
      std::memset(block, seed, bytes);
      EXPECT_EQ(block[bytes - 1], static_cast<std::byte>(seed));
      cache.Free(block, bytes);
    }
  };
  std::vector<std::thread> threads;
  for (int seed : {1, 2, 3}) threads.emplace_back(use, seed);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace ops
