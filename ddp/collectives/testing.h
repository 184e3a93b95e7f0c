// Ranks as threads, for tests; under mpirun the ranks are its processes.
//
//   RunRanks(2, [](TestRank& rank) {
//     auto group = rank.Join();
//     rank.Note("reducing");
//     ...
//   });
//
// A rank that throws is a test failure. A watchdog ends the whole test if the ranks take too long,
// after printing what each noted last.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"

namespace ddp {

// A backend, and how the ranks are spread over hosts: consecutive ones share one.
struct TestSetting {
  std::string backend = "auto";
  int num_ranks = 2;
  int num_hosts = 1;

  int HostOf(int rank) const { return rank * num_hosts / num_ranks; }
  std::string Name() const;
};

// For INSTANTIATE_TEST_SUITE_P: every backend that ranks as threads can use, with these numbers of
// ranks, and `auto` over several hosts. Under mpirun: its ranks with backend `mpi`.
std::vector<TestSetting> AllSettings(const std::vector<int>& nums_ranks);

class TestRank {
 public:
  TestRank(int rank, int size, std::shared_ptr<Store> store)
      : rank_(rank), size_(size), store_(std::move(store)) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Shared by all ranks.
  const std::shared_ptr<Store>& store() const { return store_; }

  // This rank's end of a group of all ranks. `options` may set everything but rank and size; the
  // store is store() unless it is set.
  std::unique_ptr<ProcessGroup> Join(ProcessGroupOptions options = {});
  // The same with the setting's backend and hosts.
  std::unique_ptr<ProcessGroup> Join(const TestSetting& setting, ProcessGroupOptions options = {});

  // What the watchdog prints.
  void Note(const std::string& state);
  std::string last_note() const;

 private:
  const int rank_;
  const int size_;
  const std::shared_ptr<Store> store_;
  mutable std::mutex mutex_;
  std::string note_ = "started";
};

// Whether mpirun started this process as one of the ranks.
bool RanksAreProcesses();

// Calls body for ranks 0 to size - 1, each on a thread of its own; returns when all have ended.
// Under mpirun, which has started `size` processes: for this process's rank only.
void RunRanks(int size, const std::function<void(TestRank&)>& body,
              Duration limit = std::chrono::minutes(2));

// Tests of groups of one setting.
class GroupTest : public testing::TestWithParam<TestSetting> {
 protected:
  int size() const { return GetParam().num_ranks; }
  // Runs `body` on each rank, in a group of the setting.
  void Run(const std::function<void(TestRank& rank, ProcessGroup& group)>& body);
};

template <class T>
Buffer BufferOfVector(std::vector<T>& values) {
  return {values.data(), static_cast<int64_t>(values.size()), ops::kDTypeOf<T>};
}

}  // namespace ddp
