#include "ddp/collectives/shm/exchange.h"

#include <algorithm>
#include <cstring>

#include "ddp/collectives/trouble.h"

namespace ddp::shm {
namespace {

// While letters keep moving, the deadline and Stop are looked at this often.
constexpr int kLoopsPerLook = 16;

bool IsSend(const Operation& operation) { return operation.kind == OperationKind::kSend; }

const Buffer& BufferOf(const Operation& operation) { return CommonBuffer(operation); }

}  // namespace

Exchange::Exchange(Segment& segment, int rank, Waiter& waiter)
    : segment_(segment),
      rank_(rank),
      waiter_(waiter),
      num_sent_(segment.size()),
      num_received_(segment.size()) {}

void Exchange::Run(std::span<const Operation> operations, Deadline deadline) {
  std::vector<Message> pending;
  for (const Operation& operation : operations) {
    std::vector<int64_t>& count = IsSend(operation) ? num_sent_ : num_received_;
    pending.push_back({&operation, CallOf(operation, ++count[operation.root])});
  }
  const auto missing = [&] {
    std::vector<int> peers;
    for (const Message& message : pending) peers.push_back(message.operation->root);
    std::ranges::sort(peers);
    peers.erase(std::ranges::unique(peers).begin(), peers.end());
    return peers;
  };
  Counter& bell = segment_.control(rank_).bell;
  for (uint32_t loop = 1;; ++loop) {
    const uint32_t seen = bell.value();
    bool moved = false;
    for (Message* const message : FirstOfEach(pending)) {
      moved |= IsSend(*message->operation) ? Send(*message) : Receive(*message);
    }
    std::erase_if(pending, [](const Message& message) { return message.is_done; });
    if (pending.empty()) return;
    if (loop % kLoopsPerLook == 0) {
      waiter_.CheckStopped();
      Waiter::CheckDeadline(missing, deadline);
    }
    if (moved) continue;
    const auto bell_has_rung = [&] { return bell.value() != seen; };
    waiter_.Await(bell, bell_has_rung, missing, deadline);
  }
}

std::vector<Exchange::Message*> Exchange::FirstOfEach(std::span<Message> messages) const {
  std::vector<Message*> firsts;
  for (Message& message : messages) {
    const auto goes_the_same_way = [&](const Message* other) {
      return other->operation->kind == message.operation->kind &&
             other->operation->root == message.operation->root;
    };
    if (std::ranges::none_of(firsts, goes_the_same_way)) firsts.push_back(&message);
  }
  return firsts;
}

bool Exchange::Send(Message& message) {
  const int peer = message.operation->root;
  Mailbox& mailbox = segment_.mailbox(rank_, peer);
  const uint32_t number = mailbox.num_sent.load(std::memory_order_relaxed);
  if (number - mailbox.num_taken.load(std::memory_order_acquire) == kNumLetters) return false;
  const Buffer& buffer = BufferOf(*message.operation);
  const int64_t num_bytes =
      std::min(buffer.num_bytes() - message.bytes_done, segment_.letter_payload_bytes());
  Letter& letter = segment_.letter(rank_, peer, number);
  letter.call = message.call;
  if (num_bytes > 0) {
    std::memcpy(letter.payload(), buffer.bytes() + message.bytes_done, num_bytes);
  }
  message.bytes_done += num_bytes;
  message.is_done = message.bytes_done == buffer.num_bytes();
  mailbox.num_sent.store(number + 1, std::memory_order_release);
  segment_.control(peer).bell.Increment();
  return true;
}

bool Exchange::Receive(Message& message) {
  const int peer = message.operation->root;
  Mailbox& mailbox = segment_.mailbox(peer, rank_);
  const uint32_t number = mailbox.num_taken.load(std::memory_order_relaxed);
  if (number == mailbox.num_sent.load(std::memory_order_acquire)) return false;
  Letter& letter = segment_.letter(peer, rank_, number);
  CheckLetter(message, letter.call);
  const Buffer& buffer = BufferOf(*message.operation);
  const int64_t num_bytes =
      std::min(buffer.num_bytes() - message.bytes_done, segment_.letter_payload_bytes());
  if (num_bytes > 0) {
    std::memcpy(buffer.bytes() + message.bytes_done, letter.payload(), num_bytes);
  }
  message.bytes_done += num_bytes;
  message.is_done = message.bytes_done == buffer.num_bytes();
  mailbox.num_taken.store(number + 1, std::memory_order_release);
  segment_.control(peer).bell.Increment();
  return true;
}

void Exchange::CheckLetter(const Message& message, const Call& theirs) const {
  Call expected = message.call;
  expected.kind = OperationKind::kSend;
  expected.root = rank_;
  if (theirs == expected) return;
  const int peer = message.operation->root;
  throw Disagreement(peer, DescribeDisagreement(rank_, message.call, peer, theirs));
}

}  // namespace ddp::shm
