#include "ddp/collectives/failure_watch.h"

#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "ddp/collectives/roll_call.h"
#include "ddp/errors.h"

namespace ddp {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(200);
// The end of a group waits for a wait in the store.
constexpr Duration kStep = std::chrono::milliseconds(100);

}  // namespace

FailureWatch::FailureWatch(std::shared_ptr<Store> store, int rank,
                           std::function<void(const Failure&)> on_failure)
    : store_(std::move(store)),
      rank_(rank),
      on_failure_(std::move(on_failure)),
      thread_([this] { Serve(); }) {}

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
    bool listening = true;
    while (listening && TakesLong() && !ending_) {
      lock.unlock();
      if (const std::optional<Failure> failure = Look()) return on_failure_(*failure);
      listening = !has_answered_ && Listen();
      lock.lock();
    }
  }
}

std::optional<Failure> FailureWatch::Look() {
  try {
    const std::optional<Failure> failure = FindFailure(*store_);
    // That a rank left in good order is no failure for those who need it no more.
    return failure && failure->kind == Failure::Kind::kLeft ? std::nullopt : failure;
  } catch (const CollectiveError& error) {
    return Failure{Failure::Kind::kAborted, rank_, error.what()};
  }
}

bool FailureWatch::Listen() {
  try {
    if (!AwaitRollCall(*store_, kStep)) return true;
    // A rank that has nothing to do with what the others wait for may be long in coming.
    if (!TakesLong()) return false;
    AnswerRollCall(*store_, rank_);
    has_answered_ = true;
  } catch (const std::exception&) {
    // The store doesn't answer.
  }
  return false;
}

bool FailureWatch::TakesLong() const {
  const Clock::rep begun = begun_.load(std::memory_order_relaxed);
  return begun != kNothing && Clock::now().time_since_epoch() - Duration(begun) > kPeriod;
}

}  // namespace ddp
