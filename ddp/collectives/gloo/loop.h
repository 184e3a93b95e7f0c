// What Gloo's event loop does to the process, put right.
#pragma once

#include <signal.h>

#include <deque>
#include <functional>
#include <latch>
#include <mutex>
#include <utility>

#include "ddp/duration.h"
#include "ddp/file_descriptor.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/tcp/loop.h"

namespace ddp {

// Runs a function on the loop each time its descriptor is ready. An exception would end the
// process: the function must not throw.
class LoopCallback : public gloo::transport::tcp::Handler {
 public:
  explicit LoopCallback(std::function<void()> function) : function_(std::move(function)) {}
  void handleEvents(int) override { function_(); }

 private:
  const std::function<void()> function_;
};

// Runs functions on a device's loop, now. Opening and closing connections belongs there: any other
// thread would wait for the end of the loop's present turn, which lasts up to 10 ms.
class LoopTasks : public gloo::transport::tcp::Handler {
 public:
  LoopTasks();

  // Before the others. The loop calls this object as long as the device lives.
  void Attach(gloo::transport::tcp::Device& device);
  // Returns when `task` has run; it must not throw. Not for the loop itself.
  void Run(std::function<void()> task);
  // From now on the loop makes no pauses, so that the device can end without waiting for one.
  void Hurry();

  void handleEvents(int events) override;

 private:
  struct Task {
    std::function<void()> run;
    std::latch* done;
  };

  void Wake();

  const FileDescriptor event_;
  std::mutex mutex_;
  std::deque<Task> tasks_;   // guarded by mutex_
  bool in_a_hurry_ = false;  // guarded by mutex_
};

// Runs a function on a device's loop at a time.
class LoopTimer : public gloo::transport::tcp::Handler {
 public:
  // `function` must not throw.
  explicit LoopTimer(std::function<void()> function);

  // Before the others. The loop calls this object as long as the device lives.
  void Attach(gloo::transport::tcp::Device& device);
  // In place of the time that was set before. For any thread.
  void Set(Deadline time);
  // Never; after a turn of the loop the function doesn't run any more.
  void Cancel();

  void handleEvents(int events) override;

 private:
  const std::function<void()> function_;
  const FileDescriptor timer_;
};

// While it lives, a peer that is gone doesn't end this thread's process: Gloo writes to sockets
// without MSG_NOSIGNAL. Threads that are started meanwhile are born with the same protection.
class ScopedIgnoreSigpipe {
 public:
  ScopedIgnoreSigpipe();
  ~ScopedIgnoreSigpipe();
  ScopedIgnoreSigpipe(const ScopedIgnoreSigpipe&) = delete;
  ScopedIgnoreSigpipe& operator=(const ScopedIgnoreSigpipe&) = delete;

 private:
  sigset_t previous_;
};

}  // namespace ddp
