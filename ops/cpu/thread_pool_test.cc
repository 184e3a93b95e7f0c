#include "ops/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ops::cpu {
namespace {

TEST(ThreadPoolTest, RunsEachChunkOnce) {
  for (const int num_threads : {1, 2, 3, 8}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (const int64_t num_chunks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(num_chunks);
      pool.Run(num_chunks, [&](int64_t chunk) { ++runs[chunk]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPoolTest, ManyShortJobsFollowEachOther) {
  ThreadPool pool(3);
  int64_t total = 0;
  for (int job = 0; job < 20000; ++job) {
    int64_t results[2] = {};  // plain memory: the pool must order its accesses
    pool.Run(2, [&](int64_t chunk) { results[chunk] = job + chunk; });
    total += results[0] + results[1];
  }
  EXPECT_EQ(total, int64_t{20000} * 20000);
}

TEST(ThreadPoolTest, WorkersTakePart) {
  ThreadPool pool(2);
  std::atomic<int> inside = 0;
  // Each chunk waits for the other: only two threads together can finish.
  pool.Run(2, [&](int64_t) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 2);
}

TEST(ThreadPoolTest, SleepingWorkersWake) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    // Longer than a worker spins; if it spins still, the test has merely tried less.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> inside = 0;
    pool.Run(2, [&](int64_t) {
      ++inside;
      while (inside < 2) std::this_thread::yield();
    });
  }
}

TEST(ThreadPoolTest, AnExceptionReachesTheCallerAndThePoolLivesOn) {
  ThreadPool pool(3);
  for (int i = 0; i < 100; ++i) {
    try {
      pool.Run(50, [](int64_t chunk) {
        if (chunk % 10 == 7) throw std::runtime_error("chunk failed");
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "chunk failed");
    }
    std::atomic<int> runs = 0;
    pool.Run(10, [&](int64_t) { ++runs; });
    EXPECT_EQ(runs, 10);
  }
}

TEST(ThreadPoolTest, RefusesLessThanOneThread) {
  EXPECT_THROW(ThreadPool(0), std::invalid_argument);
  EXPECT_THROW(ThreadPool(-3), std::invalid_argument);
}

using Range = std::pair<int64_t, int64_t>;

std::set<Range> RangesOf(int64_t count, int64_t chunk) {
  std::mutex mutex;
  std::set<Range> ranges;
  ParallelFor(count, chunk, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(ranges.insert({begin, end}).second);
  });
  return ranges;
}

TEST(ParallelForTest, CutsAtTheSamePlacesWithAndWithoutAPool) {
  const std::set<Range> expected = {{0, 4}, {4, 8}, {8, 10}};
  EXPECT_EQ(RangesOf(10, 4), expected);
  ThreadPool pool(2);
  const ScopedThreadPool use(&pool);
  EXPECT_EQ(RangesOf(10, 4), expected);
}

TEST(ParallelForTest, NothingToDoCallsNothing) { EXPECT_TRUE(RangesOf(0, 4).empty()); }

TEST(ParallelForTest, NestedLoopsStayOnTheirThread) {
  ThreadPool pool(3);
  const ScopedThreadPool use(&pool);
  std::atomic<int> total = 0;
  ParallelFor(6, 1, [&](int64_t, int64_t) {
    const auto outer = std::this_thread::get_id();
    ParallelFor(6, 1, [&](int64_t, int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      ++total;
    });
  });
  EXPECT_EQ(total, 36);
  // The pool is this thread's again.
  std::atomic<int> inside = 0;
  ParallelFor(2, 1, [&](int64_t, int64_t) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  });
}

TEST(ParallelForTest, ScopesNest) {
  ThreadPool pool(2);
  const ScopedThreadPool use(&pool);
  const auto caller = std::this_thread::get_id();
  {
    const ScopedThreadPool none(nullptr);
    ParallelFor(8, 1, [&](int64_t, int64_t) { EXPECT_EQ(std::this_thread::get_id(), caller); });
  }
}

}  // namespace
}  // namespace ops::cpu
