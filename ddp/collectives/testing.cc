#include "ddp/collectives/testing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/store/file_store.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"

namespace ddp {

std::string TestSetting::Name() const {
  const std::string name = fmt::format("{}{}", backend, num_ranks);
  return num_hosts == 1 ? name : fmt::format("{}on{}hosts", name, num_hosts);
}

bool RanksAreProcesses() { return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr; }

std::vector<TestSetting> AllSettings(const std::vector<int>& nums_ranks) {
  if (RanksAreProcesses()) return {{"mpi", std::atoi(std::getenv("OMPI_COMM_WORLD_SIZE"))}};
  std::vector<TestSetting> settings;
  for (const int num_ranks : nums_ranks) {
    for (const char* const backend : {"shm", "gloo"}) settings.push_back({backend, num_ranks});
    for (const int num_hosts : {1, 2, 3}) {
      if (num_hosts <= num_ranks) settings.push_back({"auto", num_ranks, num_hosts});
    }
  }
  return settings;
}

std::unique_ptr<ProcessGroup> TestRank::Join(const TestSetting& setting,
                                             ProcessGroupOptions options) {
  options.backend = setting.backend;
  options.host = fmt::format("host{}", setting.HostOf(rank_));
  // These hosts reach each other inside one machine.
  if (setting.num_hosts > 1) options.interface = "lo";
  return Join(options);
}

std::unique_ptr<ProcessGroup> TestRank::Join(ProcessGroupOptions options) {
  Note("joining");
  options.rank = rank_;
  options.world_size = size_;
  if (options.store == nullptr) options.store = store_;
  auto group = InitProcessGroup(options);
  Note("joined");
  return group;
}

void TestRank::Note(const std::string& state) {
  std::lock_guard lock(mutex_);
  note_ = state;
}

std::string TestRank::last_note() const {
  std::lock_guard lock(mutex_);
  return note_;
}

namespace {

// Runs `body`, whose exceptions are test failures.
void RunRank(TestRank& rank, const std::function<void(TestRank&)>& body) {
  try {
    body(rank);
    rank.Note("ended");
  } catch (const std::exception& error) {
    rank.Note(fmt::format("threw {}", error.what()));
    ADD_FAILURE() << "rank " << rank.rank() << " threw: " << error.what();
  }
}

// The ranks of mpirun meet in a file; each call of RunRanks has keys of its own.
void RunOwnRank(int size, const std::function<void(TestRank&)>& body) {
  static int num_calls = 0;
  const auto file = std::make_shared<FileStore>(std::getenv("DDP_TEST_STORE"),
                                                FileStoreOptions{.run_id = "test"});
  TestRank rank(std::atoi(std::getenv("OMPI_COMM_WORLD_RANK")), size,
                std::make_shared<PrefixStore>(fmt::format("{}/", ++num_calls), file));
  RunRank(rank, body);
}

}  // namespace

void RunRanks(int size, const std::function<void(TestRank&)>& body, Duration limit) {
  if (RanksAreProcesses()) return RunOwnRank(size, body);
  std::mutex mutex;
  std::condition_variable ended;
  int num_running = size;

  const auto store = std::make_shared<HashStore>();
  std::deque<TestRank> ranks;
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    TestRank& rank = ranks.emplace_back(i, size, store);
    threads.emplace_back([&] {
      RunRank(rank, body);
      std::lock_guard lock(mutex);
      --num_running;
      ended.notify_all();
    });
  }
  {
    std::unique_lock lock(mutex);
    if (!ended.wait_until(lock, DeadlineAfter(limit), [&] { return num_running == 0; })) {
      fmt::print(stderr, "watchdog: still running after {}\n", FormatSeconds(limit));
      for (const TestRank& rank : ranks) {
        fmt::print(stderr, "  rank {}: {}\n", rank.rank(), rank.last_note());
      }
      std::_Exit(1);
    }
  }
  for (std::thread& thread : threads) thread.join();
}

void GroupTest::Run(const std::function<void(TestRank& rank, ProcessGroup& group)>& body) {
  RunRanks(size(), [&](TestRank& rank) {
    const auto group = rank.Join(GetParam());
    body(rank, *group);
  });
}

}  // namespace ddp
