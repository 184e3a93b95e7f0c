#include "ddp/collectives/work_queue.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ddp {

class WorkQueue::State {
 public:
  void Push(std::shared_ptr<Item> item) {
    {
      std::lock_guard lock(mutex_);
      item->posted_ = !running_ && num_unposted_ == 0 && item->Post();
      if (!item->posted_) ++num_unposted_;
      pending_.push_back(std::move(item));
      if (!NeedsThread()) return;
    }
    Wake();
  }

  // Runs the first item in line here. Returns false when another thread is running one, which then
  // goes on until all have run.
  bool RunFirst() {
    std::shared_ptr<Item> item;
    {
      std::lock_guard lock(mutex_);
      if (pending_.empty()) return false;
      if (running_) {
        wanted_ = true;
        return false;
      }
      item = TakeFirst();
    }
    item->Run();
    if (EndRun()) Wake();
    return true;
  }

  // Makes the thread run the posted items too.
  void Want() {
    {
      std::lock_guard lock(mutex_);
      if (pending_.empty()) return;
      wanted_ = true;
      if (!NeedsThread()) return;
    }
    Wake();
  }

  void Finish() {
    while (RunFirst()) {
    }
    {
      std::unique_lock lock(mutex_);
      finishing_ = true;
      // A waiter may be running an item; the thread takes what is behind that.
      idle_.wait(lock, [this] { return !running_ && pending_.empty(); });
    }
    Wake();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void Serve() {
    for (int seen = wakes_;; wakes_.wait(seen), seen = wakes_) {
      while (std::shared_ptr<Item> item = TakeIfFree()) {
        item->Run();
        EndRun();
      }
      std::lock_guard lock(mutex_);
      if (finishing_ && pending_.empty() && !running_) return;
    }
  }

  std::shared_ptr<Item> TakeIfFree() {
    std::lock_guard lock(mutex_);
    return running_ || !HasWork() ? nullptr : TakeFirst();
  }

  // Whether the thread is needed now.
  bool EndRun() {
    std::lock_guard lock(mutex_);
    running_ = false;
    if (finishing_ && pending_.empty()) idle_.notify_all();
    return NeedsThread();
  }

  // The functions below are called with mutex_ held.

  // Whether the thread has something to do.
  bool HasWork() const {
    return num_unposted_ > 0 || (!pending_.empty() && (wanted_ || finishing_));
  }

  std::shared_ptr<Item> TakeFirst() {
    std::shared_ptr<Item> item = std::move(pending_.front());
    pending_.pop_front();
    if (!item->posted_) --num_unposted_;
    if (pending_.empty()) wanted_ = false;
    running_ = true;
    return item;
  }

  // Whether the thread has something to do; then it is there.
  bool NeedsThread() {
    if (!HasWork() || running_) return false;
    if (!thread_.joinable()) thread_ = std::thread([this] { Serve(); });
    return true;
  }

  void Wake() {
    ++wakes_;
    wakes_.notify_one();
  }

  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<Item>> pending_;
  int num_unposted_ = 0;  // of the pending ones
  bool running_ = false;
  bool wanted_ = false;  // someone waits for all that are pending
  bool finishing_ = false;
  std::condition_variable idle_;  // for Finish
  std::atomic<int> wakes_ = 0;
  std::thread thread_;
};

void WorkQueue::Item::Run() {
  try {
    Execute();
  } catch (...) {
    error_ = std::current_exception();
  }
  done_ = 1;
  done_.notify_all();
}

void WorkQueue::Item::Wait() {
  CheckPushed();
  while (done_ == 0) {
    if (!state_->RunFirst()) done_.wait(0);
  }
  if (error_) std::rethrow_exception(error_);
}

bool WorkQueue::Item::IsDone() {
  CheckPushed();
  if (done_ != 0) return true;
  state_->Want();
  return false;
}

void WorkQueue::Item::CheckPushed() const {
  if (state_ == nullptr) {
    throw std::logic_error("waited for a coalesced operation before all of them were issued");
  }
}

WorkQueue::WorkQueue() : state_(std::make_shared<State>()) {}

WorkQueue::~WorkQueue() { state_->Finish(); }

void WorkQueue::Push(std::shared_ptr<Item> item) {
  item->state_ = state_;
  state_->Push(std::move(item));
}

}  // namespace ddp
