#include "ddp/collectives/shm/waiter.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <optional>
#include <string>

namespace ddp::shm {
namespace {

using namespace std::chrono_literals;

// Spins, some 2 to 5 us. They help no one where another process keeps the peer from running: fewer
// after each wait that they didn't end, all again from time to time.
constexpr int kSpins = 100;
constexpr uint32_t kWaitsUntilAll = 64;
// Ranks that share a processor may stay together for long though another is free: each always runs
// when the kernel looks. Whoever is woken from a sleep is put where there is room.
constexpr uint32_t kYieldsUntilSleep = 64;
constexpr Duration kYielding = 200us;
constexpr Duration kSleep = 50ms;  // longest, between two looks at the peers

int NumProcessors() {
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof(processors), &processors) != 0) return 1;
  return CPU_COUNT(&processors);
}

}  // namespace

Waiter::Waiter(Segment& segment)
    : segment_(segment), may_spin_(segment.size() <= NumProcessors()) {}

void Waiter::Await(Counter& counter, const std::function<bool()>& has_come,
                   const std::function<std::vector<int>()>& missing, Deadline deadline) {
  const bool came_soon = ComesSoon(has_come);
  // What comes after Stop has come too late.
  CheckStopped();
  if (came_soon) return;
  sleeps_on_ = &counter;
  Deadline next_look = Clock::now() + kSleep;
  while (true) {
    const uint32_t seen = counter.value();
    CheckStopped();
    if (has_come()) break;
    CheckDeadline(missing, deadline);
    ThrowIfLost(has_come, missing, &Waiter::DescribeLeave);
    const Deadline now = Clock::now();
    if (now >= next_look) {
      ThrowIfLost(has_come, missing, &Waiter::DescribeDeath);
      next_look = now + kSleep;
    }
    counter.Sleep(seen, std::clamp<Duration>(deadline - now, 0ns, kSleep));
  }
  sleeps_on_ = nullptr;
}

// Without a system call at first, without a sleep at all.
bool Waiter::ComesSoon(const std::function<bool()>& has_come) {
  if (may_spin_) {
    if (++num_waits_ % kWaitsUntilAll == 0) num_spins_ = kSpins;
    for (int i = 0; i < num_spins_; ++i) {
      if (has_come()) return true;
      _mm_pause();
    }
    num_spins_ /= 2;
    if (++num_yields_ % kYieldsUntilSleep == 0) return has_come();
  }
  const Deadline end = Clock::now() + kYielding;
  do {
    if (has_come()) return true;
    sched_yield();
  } while (Clock::now() < end);
  return false;
}

void Waiter::CheckDeadline(const std::function<std::vector<int>()>& missing, Deadline deadline) {
  if (Clock::now() < deadline) return;
  const std::vector<int> late = missing();
  if (!late.empty()) throw PeerTrouble(PeerTrouble::kTimedOut, late);
}

void Waiter::ThrowIfLost(const std::function<bool()>& has_come,
                         const std::function<std::vector<int>()>& missing,
                         LossOf describe_loss) const {
  for (const int rank : missing()) {
    const std::optional<std::string> loss = (this->*describe_loss)(rank);
    if (!loss) continue;
    // What it did before counts.
    if (has_come()) return;
    const std::vector<int> still_missing = missing();
    if (std::count(still_missing.begin(), still_missing.end(), rank) == 0) continue;
    throw PeerTrouble(PeerTrouble::kLost, {rank}, *loss);
  }
}

std::optional<std::string> Waiter::DescribeLeave(int rank) const {
  if (segment_.control(rank).is_closed.load(std::memory_order_acquire) == 0) return std::nullopt;
  return "it has closed the group";
}

std::optional<std::string> Waiter::DescribeDeath(int rank) const {
  const Control& control = segment_.control(rank);
  if (control.has_joined.load(std::memory_order_acquire) == 0) return std::nullopt;
  return DescribeEnd(control.process);
}

void Waiter::Stop() {
  is_stopped_ = true;
  if (Counter* const counter = sleeps_on_; counter != nullptr) counter->Wake();
}

}  // namespace ddp::shm
