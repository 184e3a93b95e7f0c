#include "ddp/collectives/shm/testing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <thread>

#include "ddp/collectives/shm/shm_backend.h"
#include "ddp/store/hash_store.h"

namespace ddp::shm {

Meeting MakeMeeting(std::shared_ptr<Store> store, int rank, int size) {
  Meeting meeting;
  meeting.options.rank = rank;
  meeting.options.world_size = size;
  meeting.store = std::move(store);
  meeting.members.resize(size);
  meeting.deadline = DeadlineAfter(std::chrono::seconds(30));
  return meeting;
}

TestRank::TestRank(const Meeting& meeting, std::barrier<>* barrier)
    : rank_(meeting.rank()),
      size_(meeting.size()),
      backend_(MakeShmBackend(meeting)),
      barrier_(barrier) {
  const Operation join{.kind = OperationKind::kJoin};
  backend_->Run(join, CallOf(join, 0), meeting.deadline);
}

void TestRank::Run(const Operation& operation, Duration timeout) {
  backend_->Run(operation, NextCall(operation), DeadlineAfter(timeout));
}

void TestRank::Exchange(const std::vector<Operation>& operations, Duration timeout) {
  backend_->Exchange(operations, DeadlineAfter(timeout));
}

void TestRank::AwaitOthers() { barrier_->arrive_and_wait(); }

void TestRank::Note(const std::string& state) {
  std::lock_guard lock(mutex_);
  note_ = state;
}

std::string TestRank::last_note() const {
  std::lock_guard lock(mutex_);
  return note_;
}

void RunRanks(int size, const std::function<void(TestRank&)>& body, Duration limit) {
  const auto store = std::make_shared<HashStore>();
  std::barrier barrier(size);
  std::mutex mutex;
  std::condition_variable ended;
  int num_running = size;
  std::vector<TestRank*> ranks(size);  // those that have joined; guarded by mutex

  const auto run = [&](int rank) {
    TestRank self(MakeMeeting(store, rank, size), &barrier);
    const auto show = [&](TestRank* shown) {
      std::lock_guard lock(mutex);
      ranks[rank] = shown;
    };
    show(&self);
    try {
      body(self);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << " threw: " << error.what();
    }
    show(nullptr);
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      run(rank);
      std::lock_guard lock(mutex);
      if (--num_running == 0) ended.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    if (!ended.wait_until(lock, DeadlineAfter(limit), [&] { return num_running == 0; })) {
      fmt::print(stderr, "watchdog: still running after {}\n", FormatSeconds(limit));
      for (int rank = 0; rank < size; ++rank) {
        if (ranks[rank] == nullptr) continue;
        fmt::print(stderr, "  rank {}: {}\n", rank, ranks[rank]->last_note());
      }
      std::_Exit(1);
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ddp::shm
