#include "ddp/collectives/work_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace ddp {
namespace {

class Call : public WorkQueue::Item {
 public:
  explicit Call(
      std::function<void()> run, std::function<bool()> post = [] { return false; })
      : run_(std::move(run)), post_(std::move(post)) {}

 private:
  bool Post() override { return post_(); }
  void Execute() override { run_(); }

  const std::function<void()> run_;
  const std::function<bool()> post_;
};

std::shared_ptr<Work> Push(WorkQueue& queue, std::function<void()> run) {
  auto call = std::make_shared<Call>(std::move(run));
  queue.Push(call);
  return call;
}

std::shared_ptr<Work> PushPosted(WorkQueue& queue, std::function<void()> run) {
  auto call = std::make_shared<Call>(std::move(run), [] { return true; });
  queue.Push(call);
  return call;
}

TEST(WorkQueueTest, RunsInOrder) {
  std::vector<int> order;
  std::vector<std::shared_ptr<Work>> works;
  {
    WorkQueue queue;
    for (int i = 0; i < 1000; ++i)
      works.push_back(Push(queue, [&order, i] { order.push_back(i); }));
  }
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
  for (const auto& work : works) EXPECT_TRUE(work->IsDone());
}

TEST(WorkQueueTest, ProgressesWithoutAWaiter) {
  std::promise<void> ran;
  WorkQueue queue;
  const auto work = Push(queue, [&] { ran.set_value(); });
  ran.get_future().wait();
  work->Wait();
}

TEST(WorkQueueTest, WaitThrowsWhatTheWorkThrew) {
  WorkQueue queue;
  const auto work = Push(queue, [] { throw std::out_of_range("beyond"); });
  for (int i = 0; i < 2; ++i) EXPECT_THROW(work->Wait(), std::out_of_range);
  Push(queue, [] {})->Wait();
}

TEST(WorkQueueTest, ManyThreadsMayWait) {
  WorkQueue queue;
  std::promise<void> gate;
  std::atomic<int> runs = 0;
  Push(queue, [&] { gate.get_future().wait(); });
  const auto work = Push(queue, [&] { ++runs; });
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
    const auto first = Push(queue, [&] { ++counter; });
    const auto second = Push(queue, [&] { ++counter; });
    first->Wait();
    if (i % 3 == 0) second->Wait();
  }
  Push(queue, [] {})->Wait();
  EXPECT_EQ(counter, 4000);
}

// Items that a waiter runs while the queue ends, and those behind them, run before it is gone.
TEST(WorkQueueTest, EndsAfterWhatAWaiterRuns) {
  for (int round = 0; round < 200; ++round) {
    int runs = 0;  // not atomic: the sanitizer would tell
    std::promise<void> started;
    std::thread waiter;
    {
      WorkQueue queue;
      const auto work = PushPosted(queue, [&] {
        started.set_value();
        std::this_thread::yield();
        ++runs;
      });
      PushPosted(queue, [&] { ++runs; });
      waiter = std::thread([work] { work->Wait(); });
      started.get_future().wait();
    }
    EXPECT_EQ(runs, 2);
    waiter.join();
  }
}

TEST(WorkQueueTest, WorkMayOutliveTheQueue) {
  std::shared_ptr<Work> work;
  {
    WorkQueue queue;
    work = Push(queue, [] { throw std::runtime_error("late"); });
  }
  EXPECT_THROW(work->Wait(), std::runtime_error);
}

// Posted items wait for someone who wants them.
TEST(WorkQueueTest, PostedItemsRunOnTheWaiter) {
  WorkQueue queue;
  std::vector<std::thread::id> threads;
  const auto note = [&] { threads.push_back(std::this_thread::get_id()); };
  const auto first = PushPosted(queue, note);
  const auto second = PushPosted(queue, note);
  second->Wait();
  first->Wait();
  EXPECT_THAT(threads,
              testing::ElementsAre(std::this_thread::get_id(), std::this_thread::get_id()));
}

TEST(WorkQueueTest, PostedItemsRunBeforeWhatIsBehindThem) {
  WorkQueue queue;
  std::vector<int> order;
  PushPosted(queue, [&] { order.push_back(0); });
  Push(queue, [&] { order.push_back(1); });
  // Not posted: an item that isn't is ahead.
  bool asked = false;
  std::promise<void> gate;
  Push(queue, [&] { gate.get_future().wait(); });
  const auto last = std::make_shared<Call>([&] { order.push_back(2); },
                                           [&] {
                                             asked = true;
                                             return true;
                                           });
  queue.Push(last);
  gate.set_value();
  last->Wait();
  EXPECT_FALSE(asked);
  EXPECT_THAT(order, testing::ElementsAre(0, 1, 2));
}

TEST(WorkQueueTest, WhoPollsAPostedItemGetsIt) {
  WorkQueue queue;
  const auto work = PushPosted(queue, [] {});
  while (!work->IsDone()) std::this_thread::yield();
}

TEST(WorkQueueTest, ManyThreadsMayWaitForPostedItems) {
  WorkQueue queue;
  for (int round = 0; round < 500; ++round) {
    int counter = 0;  // not atomic: the sanitizer would tell
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 4; ++i) works.push_back(PushPosted(queue, [&] { ++counter; }));
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { works[i]->Wait(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(counter, 4);
  }
}

TEST(WorkQueueTest, PostedItemsRunAtTheEnd) {
  int runs = 0;
  {
    WorkQueue queue;
    for (int i = 0; i < 3; ++i) PushPosted(queue, [&] { ++runs; });
  }
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace ddp
