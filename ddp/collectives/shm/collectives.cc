#include "ddp/collectives/shm/collectives.h"

#include <algorithm>
#include <cstring>

#include "ddp/collectives/reduce.h"

namespace ddp::shm {
namespace {

// Every rank reads all slots: with many ranks larger operations are cut up sooner.
constexpr int64_t kBytesOfAllSlots = 64 << 10;
constexpr int64_t kSmall = 1 << 10;
// What is fetched ahead; of more than this the processor finds the pattern by itself.
constexpr int64_t kFetchedAhead = 2 << 10;

// A line that another processor has written takes as long to come as some hundred instructions:
// these ask for all of them at once. Before writing, so that stores find them here. (Instructions
// spelled out: GCC drops calls of functions that only prefetch.)
void FetchToWrite(const std::byte* data, int64_t num_bytes) {
  const std::byte* const end = data + std::min(num_bytes, kFetchedAhead);
  for (; data < end; data += kCacheLine) asm volatile("prefetchw %0" : : "m"(*data));
}
void FetchToRead(const std::byte* data, int64_t num_bytes) {
  const std::byte* const end = data + std::min(num_bytes, kFetchedAhead);
  for (; data < end; data += kCacheLine) asm volatile("prefetcht0 %0" : : "m"(*data));
}

}  // namespace

Collectives::Collectives(Segment& segment, int rank, Waiter& waiter, const Regions& regions)
    : segment_(segment),
      rank_(rank),
      size_(segment.size()),
      waiter_(waiter),
      regions_(regions),
      rounds_(segment, rank, waiter, regions) {}

bool Collectives::Post(const Operation& operation, const Call& call) {
  const Geometry geometry(operation, call, rank_, size_);
  if (!FitsSlot(geometry) || !NextSlotIsFree()) return false;
  FillNextSlot(geometry);
  PostNextSlot(call);
  return true;
}

void Collectives::Run(const Operation& operation, const Call& call, Deadline deadline) {
  const Geometry geometry(operation, call, rank_, size_);
  const bool fits_slot = FitsSlot(geometry);
  if (num_posted_ == num_run_) {
    AwaitNextSlot(deadline);
    if (fits_slot) {
      FillNextSlot(geometry);
    } else {
      rounds_.Begin(operation, geometry, num_posted_, deadline);
    }
    PostNextSlot(call);
  }
  AwaitSlots(deadline);
  if (fits_slot) FetchPeersPayloads(geometry);
  CompareCalls(call);
  if (fits_slot) {
    TakeFromSlots(operation, geometry);
    FetchNextSlot(geometry.max_given_bytes());
  } else {
    rounds_.Run();
  }
  segment_.control(rank_).completed.Raise(++num_run_);
}

bool Collectives::FitsSlot(const Geometry& geometry) const {
  if (geometry.is_private()) return false;
  const int64_t limit =
      std::min(segment_.payload_bytes(), std::max(kBytesOfAllSlots / size_, kSmall));
  return geometry.max_given_bytes() <= limit;
}

bool Collectives::NextSlotIsFree() {
  // Numbers wrap.
  const auto is_free = [this] {
    return static_cast<int32_t>(num_posted_ - completed_by_all_) < int32_t{kNumSlots};
  };
  if (is_free()) return true;
  completed_by_all_ = num_posted_;
  for (int rank = 0; rank < size_; ++rank) {
    const uint32_t completed = segment_.control(rank).completed.value();
    if (static_cast<int32_t>(completed - completed_by_all_) < 0) completed_by_all_ = completed;
  }
  return is_free();
}

void Collectives::AwaitNextSlot(Deadline deadline) {
  if (NextSlotIsFree()) return;
  waiter_.AwaitAll([&](int rank) -> Counter& { return segment_.control(rank).completed; },
                   num_posted_ - kNumSlots + 1, deadline);
}

void Collectives::FillNextSlot(const Geometry& geometry) {
  if (!geometry.Gives(rank_)) return;
  const Buffer& input = geometry.input();
  const int64_t num_bytes = input.num_bytes();
  if (num_bytes == 0) return;
  std::byte* const payload = segment_.slot(rank_, num_posted_).payload(geometry.max_given_bytes());
  std::memcpy(payload, input.data, num_bytes);
}

void Collectives::PostNextSlot(const Call& call) {
  Slot& slot = segment_.slot(rank_, num_posted_);
  slot.call = call;
  slot.completed = num_run_;
  slot.num_freed = regions_.num_freed();
  slot.posted.Raise(++num_posted_);
}

void Collectives::FetchNextSlot(int64_t num_bytes) {
  Slot& slot = segment_.slot(rank_, num_posted_);
  FetchToWrite(reinterpret_cast<const std::byte*>(&slot), sizeof(slot));
  FetchToWrite(slot.payload(num_bytes), num_bytes);
}

void Collectives::AwaitSlots(Deadline deadline) {
  waiter_.AwaitAll([&](int rank) -> Counter& { return segment_.slot(rank, num_run_).posted; },
                   num_run_ + 1, deadline);
}

void Collectives::FetchPeersPayloads(const Geometry& geometry) {
  // Of the others each rank takes a part.
  if (!geometry.gives_one_block() && !geometry.spreads_results()) return;
  const int64_t num_bytes = geometry.max_given_bytes();
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) FetchToRead(segment_.slot(rank, num_run_).payload(num_bytes), num_bytes);
  }
}

void Collectives::CompareCalls(const Call& call) {
  completed_by_all_ = num_run_;
  for (int rank = 0; rank < size_; ++rank) {
    const Slot& slot = segment_.slot(rank, num_run_);
    if (slot.call != call) {
      throw Disagreement(rank, DescribeDisagreement(rank_, call, rank, slot.call));
    }
    if (static_cast<int32_t>(slot.completed - completed_by_all_) < 0) {
      completed_by_all_ = slot.completed;
    }
  }
}

void Collectives::TakeFromSlots(const Operation& operation, const Geometry& geometry) {
  const int64_t num_bytes = geometry.max_given_bytes();
  if (num_bytes == 0 || !geometry.Takes(rank_)) return;
  const int64_t element_bytes = ops::SizeOf(operation.output.dtype);
  const auto payload = [&](int rank) { return segment_.slot(rank, num_run_).payload(num_bytes); };
  if (!geometry.reduces()) {
    for (int from = 0; from < size_; ++from) {
      if (!geometry.Gives(from)) continue;
      const Block given = geometry.Given(from, rank_);
      if (given.num_elements == 0) continue;
      std::memcpy(operation.output.bytes() + geometry.Taken(from).begin * element_bytes,
                  payload(from) + given.begin * element_bytes, given.num_elements * element_bytes);
    }
    return;
  }
  const int64_t begin =
      geometry.spreads_results() ? 0 : geometry.Given(rank_, rank_).begin * element_bytes;
  sources_.clear();
  for (int rank = 0; rank < size_; ++rank) {
    sources_.push_back((rank == rank_ ? geometry.input().bytes() : payload(rank)) + begin);
  }
  void* const target = operation.output.data;
  Reduce(operation.reduction.op, operation.output.dtype, sources_, {&target, 1},
         operation.output.num_elements);
}

}  // namespace ddp::shm
