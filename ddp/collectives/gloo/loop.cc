#include "ddp/collectives/gloo/loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

namespace ddp::gloo_backend {
namespace {

constexpr Duration kTickingTime = std::chrono::milliseconds(5);

sigset_t OnlySigpipe() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  return set;
}

}  // namespace

LoopTicker::LoopTicker() : event_(OpenEvent()) {}

void LoopTicker::Attach(gloo::transport::tcp::Device& device) {
  device.registerDescriptor(event_.get(), EPOLLIN, this);
}

// The event stays ready, and the loop turns, until somebody reads it.
void LoopTicker::Start() {
  stop_at_ = (Clock::now() + kTickingTime).time_since_epoch().count();
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_.get(), &one, sizeof one);
}

void LoopTicker::handleEvents(int) {
  if (Clock::now().time_since_epoch().count() < stop_at_) return;
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = read(event_.get(), &count, sizeof count);
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

}  // namespace ddp::gloo_backend
