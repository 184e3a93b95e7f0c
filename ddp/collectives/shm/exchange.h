// Exchange: sends and receives between pairs of ranks. A message travels as letters through the
// mailbox of its pair, as many as it takes; each says which message it is a part of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ddp/collectives/operation.h"
#include "ddp/collectives/shm/segment.h"
#include "ddp/collectives/shm/waiter.h"
#include "ddp/duration.h"

namespace ddp::shm {

class Exchange {
 public:
  // All must outlive the exchange.
  Exchange(Segment& segment, int rank, Waiter& waiter);

  // As Backend::Exchange.
  void Run(std::span<const Operation> operations, Deadline deadline);

 private:
  // A message under way.
  struct Message {
    const Operation* operation;
    Call call;
    int64_t bytes_done = 0;
    bool is_done = false;
  };

  // The messages of one direction with one peer go one after the other.
  std::vector<Message*> FirstOfEach(std::span<Message> messages) const;
  // Each moves at most one letter, and returns whether it did.
  bool Send(Message& message);
  bool Receive(Message& message);
  void CheckLetter(const Message& message, const Call& theirs) const;

  Segment& segment_;
  const int rank_;
  Waiter& waiter_;
  // Messages so far, by peer.
  std::vector<int64_t> num_sent_;
  std::vector<int64_t> num_received_;
};

}  // namespace ddp::shm
