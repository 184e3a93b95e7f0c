// Abseil's mutexes as ThreadSanitizer can see them; linked in with --config=tsan only.
//
// The distribution's Abseil is compiled without ThreadSanitizer and waits by futex, which the
// sanitizer doesn't follow: it would report a race for everything that an absl::Mutex guards. Here
// the same classes are defined once more, on the standard library's, whose calls it intercepts. A
// definition in the executable takes the place of the shared library's, for the library's own
// callers too.
//
// A reader's lock is exclusive here, debugging aids do nothing, and every Unlock wakes all that
// await a condition: slow, and right.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

struct MutexState {
  std::mutex mutex;
  std::condition_variable unlocked;
};

// The state behind the one word of a Mutex or CondVar, made at first use: their constructors are
// inline and set the word to 0.
template <typename State>
State& StateOf(std::atomic<intptr_t>& word) {
  intptr_t value = word.load(std::memory_order_acquire);
  if (value == 0) {
    auto* made = new State;
    if (word.compare_exchange_strong(value, reinterpret_cast<intptr_t>(made))) return *made;
    delete made;
  }
  return *reinterpret_cast<State*>(value);
}

template <typename State>
void DeleteState(std::atomic<intptr_t>& word) {
  delete reinterpret_cast<State*>(word.load(std::memory_order_acquire));
}

// Waits on `changed` until `is_done()` or the deadline. The lock is held before and after.
template <typename IsDone>
bool WaitUntil(std::condition_variable& changed, std::mutex& mutex, Time deadline, IsDone is_done) {
  std::unique_lock<std::mutex> lock(mutex, std::adopt_lock);
  bool done = true;
  if (deadline == InfiniteFuture()) {
    changed.wait(lock, is_done);
  } else {
    done = changed.wait_until(lock, ToChronoTime(deadline), is_done);
  }
  lock.release();
  return done;
}

}  // namespace

Mutex::~Mutex() { DeleteState<MutexState>(mu_); }
void Mutex::Lock() { StateOf<MutexState>(mu_).mutex.lock(); }
bool Mutex::TryLock() { return StateOf<MutexState>(mu_).mutex.try_lock(); }
void Mutex::Unlock() {
  auto& state = StateOf<MutexState>(mu_);
  state.unlocked.notify_all();  // before the unlock: whoever gets the lock may destroy the mutex
  state.mutex.unlock();
}
void Mutex::ReaderLock() { Lock(); }
bool Mutex::ReaderTryLock() { return TryLock(); }
void Mutex::ReaderUnlock() { Unlock(); }

bool Mutex::AwaitWithDeadline(const Condition& cond, Time deadline) {
  auto& state = StateOf<MutexState>(mu_);
  state.unlocked.notify_all();
  return WaitUntil(state.unlocked, state.mutex, deadline, [&] { return cond.Eval(); });
}
void Mutex::Await(const Condition& cond) { AwaitWithDeadline(cond, InfiniteFuture()); }
bool Mutex::AwaitWithTimeout(const Condition& cond, Duration timeout) {
  return AwaitWithDeadline(cond, Now() + timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& cond, Time deadline) {
  Lock();
  return AwaitWithDeadline(cond, deadline);
}
void Mutex::LockWhen(const Condition& cond) { LockWhenWithDeadline(cond, InfiniteFuture()); }
bool Mutex::LockWhenWithTimeout(const Condition& cond, Duration timeout) {
  return LockWhenWithDeadline(cond, Now() + timeout);
}
void Mutex::ReaderLockWhen(const Condition& cond) { LockWhen(cond); }
bool Mutex::ReaderLockWhenWithDeadline(const Condition& cond, Time deadline) {
  return LockWhenWithDeadline(cond, deadline);
}
bool Mutex::ReaderLockWhenWithTimeout(const Condition& cond, Duration timeout) {
  return LockWhenWithTimeout(cond, timeout);
}

void Mutex::AssertHeld() const {}
void Mutex::AssertReaderHeld() const {}
void Mutex::AssertNotHeld() const {}
void Mutex::ForgetDeadlockInfo() {}
void Mutex::EnableDebugLog(const char*) {}
void Mutex::EnableInvariantDebugging(void (*)(void*), void*) {}

CondVar::~CondVar() { DeleteState<std::condition_variable>(cv_); }
void CondVar::Signal() { StateOf<std::condition_variable>(cv_).notify_one(); }
void CondVar::SignalAll() { StateOf<std::condition_variable>(cv_).notify_all(); }
void CondVar::EnableDebugLog(const char*) {}

// Returns true if the deadline passed, as Abseil does; false for a signal, or for nothing at all.
bool CondVar::WaitWithDeadline(Mutex* mu, Time deadline) {
  auto& state = StateOf<MutexState>(mu->mu_);
  state.unlocked.notify_all();
  bool is_first_look = true;
  WaitUntil(StateOf<std::condition_variable>(cv_), state.mutex, deadline,
            [&] { return !std::exchange(is_first_look, false); });
  return Now() >= deadline;
}
void CondVar::Wait(Mutex* mu) { WaitWithDeadline(mu, InfiniteFuture()); }
bool CondVar::WaitWithTimeout(Mutex* mu, Duration timeout) {
  return WaitWithDeadline(mu, Now() + timeout);
}

Notification::~Notification() { MutexLock lock(&mutex_); }
void Notification::Notify() {
  MutexLock lock(&mutex_);
  notified_yet_.store(true, std::memory_order_release);
}
bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  const Condition notified(&HasBeenNotifiedInternal, &notified_yet_);
  const bool result = mutex_.LockWhenWithDeadline(notified, deadline);
  mutex_.Unlock();
  return result;
}
void Notification::WaitForNotification() const {
  WaitForNotificationWithDeadline(InfiniteFuture());
}
bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  return WaitForNotificationWithDeadline(Now() + timeout);
}

bool BlockingCounter::DecrementCount() {
  MutexLock lock(&lock_);
  if (count_.fetch_sub(1) > 1) return false;
  done_ = true;
  return true;
}
void BlockingCounter::Wait() {
  MutexLock lock(&lock_);
  lock_.Await(Condition(&done_));
}

ABSL_NAMESPACE_END
}  // namespace absl
