// Waiter: how a rank waits for its peers: for the next microseconds on the processor, where there
// is one for each rank, then politely, then asleep. Notices within a tenth of a second when a peer
// that it waits for has left or has died.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ddp/collectives/shm/segment.h"
#include "ddp/collectives/trouble.h"
#include "ddp/duration.h"

namespace ddp::shm {

class Waiter {
 public:
  // The segment must outlive the waiter.
  explicit Waiter(Segment& segment);

  // Returns when counter_of(rank) has reached `value` for every rank. Throws PeerTrouble when one
  // that hasn't is lost, or all that haven't by the deadline; Stopped.
  template <class CounterOf>
  void AwaitAll(CounterOf counter_of, uint32_t value, Deadline deadline) {
    const auto missing = [&] { return MissingRanks(counter_of, value); };
    for (int rank = 0; rank < segment_.size(); ++rank) {
      Counter& counter = counter_of(rank);
      const auto has_come = [&] { return counter.HasReached(value); };
      // By reference: a std::function of a lambda may allocate.
      if (!has_come()) Await(counter, std::cref(has_come), std::cref(missing), deadline);
    }
  }
  // Returns when `has_come()`, which only becomes true with a change of `counter`. `missing()` are
  // the ranks that are waited for. Throws as above.
  void Await(Counter& counter, const std::function<bool()>& has_come,
             const std::function<std::vector<int>()>& missing, Deadline deadline);

  // Ends this rank's present wait and all later ones with Stopped. Safe from any thread.
  void Stop();
  // Throws Stopped after Stop.
  void CheckStopped() const {
    if (is_stopped_.load(std::memory_order_acquire)) throw Stopped();
  }
  // Throws PeerTrouble with those that are missing, if any, when the deadline has passed.
  static void CheckDeadline(const std::function<std::vector<int>()>& missing, Deadline deadline);

 private:
  template <class CounterOf>
  std::vector<int> MissingRanks(CounterOf counter_of, uint32_t value) const {
    std::vector<int> missing;
    for (int rank = 0; rank < segment_.size(); ++rank) {
      if (!counter_of(rank).HasReached(value)) missing.push_back(rank);
    }
    return missing;
  }
  bool ComesSoon(const std::function<bool()>& has_come);

  // How a rank was lost, if it was.
  using LossOf = std::optional<std::string> (Waiter::*)(int rank) const;
  std::optional<std::string> DescribeLeave(int rank) const;
  std::optional<std::string> DescribeDeath(int rank) const;
  // Nothing when what is waited for has come by the time that the loss is seen.
  void ThrowIfLost(const std::function<bool()>& has_come,
                   const std::function<std::vector<int>()>& missing, LossOf describe_loss) const;

  Segment& segment_;
  const bool may_spin_;
  uint32_t num_waits_ = 0;
  int num_spins_ = 0;
  uint32_t num_yields_ = 0;  // waits that spinning didn't end
  std::atomic<bool> is_stopped_ = false;
  std::atomic<Counter*> sleeps_on_ = nullptr;
};

}  // namespace ddp::shm
