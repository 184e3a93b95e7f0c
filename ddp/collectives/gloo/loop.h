// What Gloo's event loop does to the process, put right.
#pragma once

#include <signal.h>

#include <atomic>
#include <memory>

#include "ddp/store/socket.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/tcp/loop.h"

namespace ddp::gloo_backend {

// Keeps the loop of a device turning. Whoever opens or closes a connection waits for the end of the
// loop's present turn, which lasts up to 10 ms while nothing happens: with this, it lasts
// microseconds. A turn costs CPU, so it ends by itself after a short while.
class LoopTicker : public gloo::transport::tcp::Handler {
 public:
  LoopTicker();

  // Both before the device ends. The loop calls this object as long as the device lives.
  void Attach(gloo::transport::tcp::Device& device);
  void Start();

  void handleEvents(int events) override;

 private:
  const FileDescriptor event_;
  std::atomic<Clock::rep> stop_at_ = 0;
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

}  // namespace ddp::gloo_backend
