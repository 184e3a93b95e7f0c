#include "ddp/collectives/work_queue.h"

#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

namespace ddp {

class WorkQueue::Task : public Work {
 public:
  Task(std::shared_ptr<State> state, std::function<void()> run)
      : state_(std::move(state)), run_(std::move(run)) {}

  void Wait() override;
  bool IsDone() const override { return done_ != 0; }

  void Run() {
    try {
      run_();
    } catch (...) {
      error_ = std::current_exception();
    }
    run_ = nullptr;  // lets go of what it holds
    done_ = 1;
    done_.notify_all();
  }

 private:
  const std::shared_ptr<State> state_;
  std::function<void()> run_;
  std::exception_ptr error_;   // set before done_
  std::atomic<int> done_ = 0;  // an int, which std::atomic maps to one futex
};

class WorkQueue::State {
 public:
  void Push(std::shared_ptr<Task> task) {
    {
      std::lock_guard lock(mutex_);
      pending_.push_back(std::move(task));
      if (!thread_.joinable()) thread_ = std::thread([this] { Serve(); });
    }
    Wake();
  }

  // Runs `task` here if it is the first in line and nothing else runs; false otherwise.
  bool TryRun(const Task* task) {
    std::shared_ptr<Task> taken;
    {
      std::lock_guard lock(mutex_);
      if (running_ || pending_.empty() || pending_.front().get() != task) return false;
      taken = TakeFirst();
    }
    taken->Run();
    if (EndRun()) Wake();
    return true;
  }

  void Finish() {
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
      while (std::shared_ptr<Task> task = TakeIfFree()) {
        task->Run();
        EndRun();
      }
      std::lock_guard lock(mutex_);
      if (finishing_ && pending_.empty() && !running_) return;
    }
  }

  std::shared_ptr<Task> TakeIfFree() {
    std::lock_guard lock(mutex_);
    return running_ || pending_.empty() ? nullptr : TakeFirst();
  }

  // mutex_ is held.
  std::shared_ptr<Task> TakeFirst() {
    std::shared_ptr<Task> task = std::move(pending_.front());
    pending_.pop_front();
    running_ = true;
    return task;
  }

  // Whether the thread has something to do now.
  bool EndRun() {
    std::lock_guard lock(mutex_);
    running_ = false;
    return !pending_.empty() || finishing_;
  }

  void Wake() {
    ++wakes_;
    wakes_.notify_one();
  }

  std::mutex mutex_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<Task>> pending_;
  bool running_ = false;
  bool finishing_ = false;
  std::atomic<int> wakes_ = 0;
  std::thread thread_;
};

void WorkQueue::Task::Wait() {
  if (!IsDone() && !state_->TryRun(this)) done_.wait(0);
  if (error_) std::rethrow_exception(error_);
}

WorkQueue::WorkQueue() : state_(std::make_shared<State>()) {}

WorkQueue::~WorkQueue() { state_->Finish(); }

std::shared_ptr<Work> WorkQueue::Push(std::function<void()> run) {
  auto task = std::make_shared<Task>(state_, std::move(run));
  state_->Push(task);
  return task;
}

}  // namespace ddp
