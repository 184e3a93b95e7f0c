#include "ddp/collectives/work_queue.h"

#include <deque>
#include <mutex>
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
      std::lock_guard lock(mutex_);
      finishing_ = true;
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
    return NeedsThread() || finishing_;
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
  while (done_ == 0) {
    if (!state_->RunFirst()) done_.wait(0);
  }
  if (error_) std::rethrow_exception(error_);
}

bool WorkQueue::Item::IsDone() {
  if (done_ != 0) return true;
  state_->Want();
  return false;
}

WorkQueue::WorkQueue() : state_(std::make_shared<State>()) {}

WorkQueue::~WorkQueue() { state_->Finish(); }

void WorkQueue::Push(std::shared_ptr<Item> item) {
  item->state_ = state_;
  state_->Push(std::move(item));
}

}  // namespace ddp
