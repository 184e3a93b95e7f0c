#include "ddp/collectives/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ddp {
namespace {

using testing::ElementsAre;

TEST(WorkQueueTest, RunsInOrder) {
  std::vector<int> order;
  std::vector<std::shared_ptr<Work>> works;
  {
    WorkQueue queue;
    for (int i = 0; i < 1000; ++i) works.push_back(queue.Push([&order, i] { order.push_back(i); }));
  }
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
  for (const auto& work : works) EXPECT_TRUE(work->IsDone());
}

TEST(WorkQueueTest, ProgressesWithoutAWaiter) {
  std::promise<void> ran;
  WorkQueue queue;
  const auto work = queue.Push([&] { ran.set_value(); });
  ran.get_future().wait();
  work->Wait();
}

TEST(WorkQueueTest, WaitThrowsWhatTheWorkThrew) {
  WorkQueue queue;
  const auto work = queue.Push([] { throw std::out_of_range("beyond"); });
  for (int i = 0; i < 2; ++i) EXPECT_THROW(work->Wait(), std::out_of_range);
  queue.Push([] {})->Wait();
}

TEST(WorkQueueTest, ManyThreadsMayWait) {
  WorkQueue queue;
  std::promise<void> gate;
  std::atomic<int> runs = 0;
  queue.Push([&] { gate.get_future().wait(); });
  const auto work = queue.Push([&] { ++runs; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { work->Wait(); });
  EXPECT_FALSE(work->IsDone());
  gate.set_value();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, 1);
}

TEST(WorkQueueTest, TasksRunningOnAWaiterAndOnTheThreadNeverOverlap) {
  WorkQueue queue;
  int counter = 0;  // not atomic: the sanitizer would tell
  for (int i = 0; i < 2000; ++i) {
    const auto first = queue.Push([&] { ++counter; });
    const auto second = queue.Push([&] { ++counter; });
    first->Wait();
    if (i % 3 == 0) second->Wait();
  }
  queue.Push([] {})->Wait();
  EXPECT_EQ(counter, 4000);
}

TEST(WorkQueueTest, WorkMayOutliveTheQueue) {
  std::shared_ptr<Work> work;
  {
    WorkQueue queue;
    work = queue.Push([] { throw std::runtime_error("late"); });
  }
  EXPECT_THROW(work->Wait(), std::runtime_error);
}

}  // namespace
}  // namespace ddp
