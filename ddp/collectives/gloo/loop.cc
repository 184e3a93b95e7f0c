#include "ddp/collectives/gloo/loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>

#include "ddp/store/socket.h"

namespace ddp {
namespace {

FileDescriptor OpenTimer() {
  FileDescriptor timer(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer.is_open()) ThrowSystemError(errno, "can't open a timer");
  return timer;
}

sigset_t OnlySigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

LoopTasks::LoopTasks() : event_(OpenEvent()) {}

void LoopTasks::Attach(gloo::transport::tcp::Device& device) {
  device.registerDescriptor(event_.get(), EPOLLIN, this);
}

void LoopTasks::Run(std::function<void()> task) {
  std::latch done(1);
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), &done});
  }
  Wake();
  done.wait();
}

// The event stays ready, and the loop turns, as nobody reads it any more.
void LoopTasks::Hurry() {
  {
    std::lock_guard lock(mutex_);
    in_a_hurry_ = true;
  }
  Wake();
}

void LoopTasks::handleEvents(int) {
  std::deque<Task> tasks;
  {
    std::lock_guard lock(mutex_);
    if (in_a_hurry_) return;
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t size = read(event_.get(), &count, sizeof count);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) {
    task.run();
    task.done->count_down();
  }
}

void LoopTasks::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

LoopTimer::LoopTimer(std::function<void()> function)
    : function_(std::move(function)), timer_(OpenTimer()) {}

void LoopTimer::Attach(gloo::transport::tcp::Device& device) {
  device.registerDescriptor(timer_.get(), EPOLLIN, this);
}

void LoopTimer::Set(Deadline time) {
  // Zero would be never.
  const Duration since_boot = std::max(time.time_since_epoch(), Duration(1));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_boot);
  const itimerspec setting{{}, {seconds.count(), (since_boot - seconds).count()}};
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

void LoopTimer::Cancel() {
  const itimerspec never{};
  timerfd_settime(timer_.get(), 0, &never, nullptr);
}

void LoopTimer::handleEvents(int) {
  uint64_t count = 0;
  // Nothing where the time was set anew meanwhile.
  if (read(timer_.get(), &count, sizeof count) == sizeof count) function_();
}

ScopedIgnoreSigpipe::ScopedIgnoreSigpipe() {
  const sigset_t sigpipe = OnlySigpipe();
  pthread_sigmask(SIG_BLOCK, &sigpipe, &previous_);
}

ScopedIgnoreSigpipe::~ScopedIgnoreSigpipe() {
  if (sigismember(&previous_, SIGPIPE)) return;
  // One that came meanwhile would be delivered as soon as it may.
  const sigset_t sigpipe = OnlySigpipe();
  const timespec at_once{};
  sigtimedwait(&sigpipe, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace ddp
