// What a sanitizer must not report: each test passes a plain variable from thread to thread.

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/blocking_counter.h>
#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>
#include <absl/time/time.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace {

TEST(SynchronizationTest, MutexGuards) {
  absl::Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) {
        absl::MutexLock lock(&mutex);
        ++count;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, 4000);
}

TEST(SynchronizationTest, ReadersSeeWhatWasWritten) {
  absl::Mutex mutex;
  int value = 0;
  std::thread writer([&] {
    absl::WriterMutexLock lock(&mutex);
    value = 1;
  });
  {
    absl::ReaderMutexLock lock(&mutex);
    EXPECT_LE(value, 1);
  }
  writer.join();
}

TEST(SynchronizationTest, AwaitHandsOver) {
  absl::Mutex mutex;
  int turn = 0;
  int value = 0;
  const auto is_mine = +[](int* turn) { return *turn == 1; };
  std::thread other([&] {
    absl::MutexLock lock(&mutex, absl::Condition(is_mine, &turn));
    ++value;
    turn = 2;
  });
  {
    absl::MutexLock lock(&mutex);
    ++value;
    turn = 1;
    mutex.Await(absl::Condition(
        +[](int* turn) { return *turn == 2; }, &turn));
    EXPECT_EQ(value, 2);
    EXPECT_FALSE(mutex.AwaitWithTimeout(absl::Condition(is_mine, &turn), absl::Milliseconds(1)));
  }
  other.join();
}

TEST(SynchronizationTest, CondVarHandsOver) {
  absl::Mutex mutex;
  absl::CondVar changed;
  bool is_ready = false;
  std::thread other([&] {
    absl::MutexLock lock(&mutex);
    is_ready = true;
    changed.SignalAll();
  });
  {
    absl::MutexLock lock(&mutex);
    while (!is_ready) changed.Wait(&mutex);
    EXPECT_TRUE(changed.WaitWithTimeout(&mutex, absl::Milliseconds(1)));
  }
  other.join();
}

TEST(SynchronizationTest, NotificationPublishes) {
  absl::Notification done;
  int value = 0;
  std::thread other([&] {
    value = 1;
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_EQ(value, 1);
  other.join();
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::ZeroDuration()));
  EXPECT_FALSE(absl::Notification().WaitForNotificationWithTimeout(absl::Milliseconds(1)));
}

TEST(SynchronizationTest, BlockingCounterPublishes) {
  absl::BlockingCounter counter(3);
  int values[3] = {};
  std::vector<std::thread> threads;
  for (int& value : values) {
    threads.emplace_back([&] {
      value = 1;
      counter.DecrementCount();
    });
  }
  counter.Wait();
  EXPECT_EQ(values[0] + values[1] + values[2], 3);
  for (auto& thread : threads) thread.join();
}

}  // namespace
