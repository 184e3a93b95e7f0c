#include "ddp/collectives/failure_watch.h"

#include <chrono>
#include <optional>
#include <utility>

namespace ddp {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(200);

}  // namespace

FailureWatch::FailureWatch(std::shared_ptr<Store> store,
                           std::function<void(const Failure&)> on_failure)
    : store_(std::move(store)), on_failure_(std::move(on_failure)), thread_([this] { Serve(); }) {}

FailureWatch::~FailureWatch() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ending_changed_.notify_all();
  thread_.join();
}

void FailureWatch::Serve() {
  std::unique_lock lock(mutex_);
  while (!ending_changed_.wait_for(lock, kPeriod, [this] { return ending_; })) {
    if (!TakesLong()) continue;
    lock.unlock();
    // That a rank left in good order is no failure for those who need it no more.
    const std::optional<Failure> failure = FindFailure(*store_);
    if (failure && failure->kind != Failure::Kind::kLeft) return on_failure_(*failure);
    lock.lock();
  }
}

bool FailureWatch::TakesLong() const {
  const Clock::rep begun = begun_.load(std::memory_order_relaxed);
  return begun != kNothing && Clock::now().time_since_epoch() - Duration(begun) > kPeriod;
}

}  // namespace ddp
