// Ranks with a backend each and no group above it, as threads, for tests.
#pragma once

#include <barrier>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/meeting.h"

namespace ddp::shm {

// The meeting of `size` ranks of this host.
Meeting MakeMeeting(std::shared_ptr<Store> store, int rank, int size);

class TestRank {
 public:
  // Makes the backend, and joins the others.
  explicit TestRank(const Meeting& meeting, std::barrier<>* barrier = nullptr);

  int rank() const { return rank_; }
  int size() const { return size_; }
  Backend& backend() { return *backend_; }

  Call NextCall(const Operation& operation) { return CallOf(operation, ++sequence_number_); }
  void Run(const Operation& operation, Duration timeout = std::chrono::minutes(1));
  void Exchange(const std::vector<Operation>& operations,
                Duration timeout = std::chrono::minutes(1));
  // Ends the backend.
  void Leave() { backend_.reset(); }
  // Returns once all ranks have called it, without the backend.
  void AwaitOthers();

  // What the watchdog prints.
  void Note(const std::string& state);
  std::string last_note() const;

 private:
  const int rank_;
  const int size_;
  std::unique_ptr<Backend> backend_;
  int64_t sequence_number_ = 0;
  std::barrier<>* const barrier_;
  mutable std::mutex mutex_;
  std::string note_ = "started";  // guarded by mutex_
};

// Calls body for ranks 0 to size - 1, each on a thread of its own; returns when all have ended. A
// rank that throws is a test failure. A watchdog ends the whole test if the ranks take too long,
// after printing what each noted last.
void RunRanks(int size, const std::function<void(TestRank&)>& body,
              Duration limit = std::chrono::minutes(2));

}  // namespace ddp::shm
