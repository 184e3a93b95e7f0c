#include "ddp/collectives/shm/rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "ddp/collectives/reduce.h"
#include "ddp/collectives/trouble.h"

namespace ddp::shm {
namespace {

// A payload that is never a small one.
constexpr int64_t kAnnouncement = sizeof(Announcement);

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Rounds::Rounds(Segment& segment, int rank, Waiter& waiter, const Regions& regions)
    : segment_(segment),
      rank_(rank),
      size_(segment.size()),
      waiter_(waiter),
      regions_(regions),
      inputs_(size_),
      outputs_(size_) {}

Announcement& Rounds::announcement(int rank) const {
  return *reinterpret_cast<Announcement*>(
      segment_.slot(rank, present_.number).payload(kAnnouncement));
}

bool Rounds::exposes_memory() const {
  const Geometry& geometry = *present_.geometry;
  return (present_.input_is_reachable && geometry.Gives(rank_)) ||
         (present_.output_is_reachable && geometry.spreads_results() && geometry.Takes(rank_));
}

Block Rounds::GivenBy(int from) const {
  if (!present_.geometry->is_private()) return present_.geometry->Given(from, rank_);
  const int64_t* const counts = announcement(from).input_counts();
  return {std::accumulate(counts, counts + rank_, int64_t{0}), counts[rank_]};
}

Block Rounds::PartOf(const Block& block, int64_t round) const {
  const int64_t done = std::min(round * present_.piece, block.num_elements);
  return {block.begin + done, std::min(present_.piece, block.num_elements - done)};
}

void Rounds::Begin(const Operation& operation, const Geometry& geometry, uint32_t number,
                   Deadline deadline) {
  const Buffer& input = geometry.input();
  const Buffer& output = operation.output;
  present_ = {.operation = &operation,
              .geometry = &geometry,
              .number = number,
              .element_bytes = ops::SizeOf(input.dtype),
              .deadline = deadline};
  Announcement& mine = announcement(rank_);
  mine = {};
  if (geometry.Gives(rank_)) mine.input = regions_.Find(input.data, input.num_bytes());
  if (geometry.spreads_results() && geometry.Takes(rank_)) {
    mine.output = regions_.Find(output.data, output.num_bytes());
  }
  if (geometry.is_private()) {
    std::ranges::copy(operation.input_counts, mine.input_counts());
    std::ranges::copy(operation.output_counts, mine.output_counts(size_));
  }
  present_.input_is_reachable = mine.input.is_reachable();
  present_.output_is_reachable = mine.output.is_reachable();
  PlanPieces();
  Stage(0);
}

// Cuts the blocks into even pieces that fit into the stage.
void Rounds::PlanPieces() {
  const Geometry& geometry = *present_.geometry;
  const int64_t stage_bytes = segment_.stage_bytes();
  present_.stride_bytes =
      geometry.gives_one_block() ? stage_bytes : stage_bytes / size_ / kCacheLine * kCacheLine;
  present_.piece = present_.stride_bytes / present_.element_bytes;
  if (geometry.is_private()) return;
  present_.num_rounds = CeilDivide(geometry.max_block(), present_.piece);
  const int64_t line = kCacheLine / present_.element_bytes;
  const int64_t even_piece = CeilDivide(geometry.max_block(), present_.num_rounds);
  present_.piece = CeilDivide(even_piece, line) * line;
}

void Rounds::Run() {
  if (present_.geometry->is_private()) {
    CompareCounts();
    present_.num_rounds = std::max<int64_t>(CeilDivide(MaxCount(), present_.piece), 1);
  }
  const bool nothing_is_staged = FindPeersMemory();
  if (nothing_is_staged) {
    present_.num_rounds = 1;
    present_.piece = std::numeric_limits<int64_t>::max();
  }
  for (int64_t round = 0; round < present_.num_rounds; ++round) {
    if (round + 1 < present_.num_rounds) Stage(round + 1);
    Consume(round);
    TakeResults(round);
  }
  num_rounds_ += static_cast<uint32_t>(present_.num_rounds);
  if (exposes_memory()) AwaitConsumed(num_rounds_);
}

void Rounds::CompareCounts() const {
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      const int64_t given = announcement(from).input_counts()[to];
      const int64_t taken = announcement(to).output_counts(size_)[from];
      if (given == taken) continue;
      throw Disagreement(from == rank_ ? to : from,
                         fmt::format("rank {} gives {} elements to rank {}, which takes {}", from,
                                     given, to, taken));
    }
  }
}

int64_t Rounds::MaxCount() const {
  int64_t max_count = 0;
  for (int rank = 0; rank < size_; ++rank) {
    const int64_t* const counts = announcement(rank).input_counts();
    max_count = std::max(max_count, *std::max_element(counts, counts + size_));
  }
  return max_count;
}

bool Rounds::FindPeersMemory() {
  const Geometry& geometry = *present_.geometry;
  bool nothing_is_staged = true;
  for (int rank = 0; rank < size_; ++rank) {
    const Announcement& theirs = announcement(rank);
    inputs_[rank] = FindMemory(rank, theirs.input);
    outputs_[rank] = FindMemory(rank, theirs.output);
    if (geometry.Gives(rank)) nothing_is_staged &= theirs.input.is_reachable();
    if (geometry.spreads_results() && geometry.Takes(rank)) {
      nothing_is_staged &= theirs.output.is_reachable();
    }
  }
  inputs_[rank_] = geometry.input().bytes();
  outputs_[rank_] = present_.operation->output.bytes();
  return nothing_is_staged;
}

std::byte* Rounds::FindMemory(int rank, const Placement& placement) {
  if (rank == rank_ || !placement.is_reachable()) return nullptr;
  if (peer_regions_.empty()) {
    for (int peer = 0; peer < size_; ++peer) {
      peer_regions_.emplace_back(segment_.control(peer).process);
    }
  }
  const uint32_t num_freed = segment_.slot(rank, present_.number).num_freed;
  std::byte* const memory = peer_regions_[rank].Find(placement, num_freed);
  if (memory == nullptr) throw PeerTrouble(PeerTrouble::kLost, {rank}, "its memory is gone");
  return memory;
}

void Rounds::Stage(int64_t round) {
  const uint32_t number = num_rounds_ + static_cast<uint32_t>(round);
  const Geometry& geometry = *present_.geometry;
  if (geometry.Gives(rank_) && !present_.input_is_reachable) {
    AwaitConsumed(number - 1);
    std::byte* const stage = segment_.input_stage(rank_, number);
    const bool one_block = geometry.gives_one_block();
    for (int to = 0; to < (one_block ? 1 : size_); ++to) {
      if (to == rank_ && !one_block) continue;
      const Block part = PartOf(geometry.Given(rank_, to), round);
      std::memcpy(stage + to * present_.stride_bytes,
                  geometry.input().bytes() + part.begin * present_.element_bytes,
                  part.num_elements * present_.element_bytes);
    }
  }
  segment_.control(rank_).staged.Raise(number + 1);
}

void Rounds::Consume(int64_t round) {
  const uint32_t number = num_rounds_ + static_cast<uint32_t>(round);
  // The first comes with the slots.
  if (round > 0) {
    waiter_.AwaitAll([&](int rank) -> Counter& { return segment_.control(rank).staged; },
                     number + 1, present_.deadline);
  }
  if (present_.geometry->reduces()) {
    ReduceBlocks(round);
  } else if (present_.geometry->Takes(rank_)) {
    TakeBlocks(round);
  }
  segment_.control(rank_).consumed.Raise(number + 1);
}

const std::byte* Rounds::SourceOf(int from, const Block& part, uint32_t number) const {
  if (inputs_[from] != nullptr) return inputs_[from] + part.begin * present_.element_bytes;
  const int place = present_.geometry->gives_one_block() ? 0 : rank_;
  return segment_.input_stage(from, number) + place * present_.stride_bytes;
}

void Rounds::ReduceBlocks(int64_t round) {
  const uint32_t number = num_rounds_ + static_cast<uint32_t>(round);
  const Geometry& geometry = *present_.geometry;
  const Operation& operation = *present_.operation;
  const Block part = PartOf(geometry.Given(rank_, rank_), round);
  if (part.num_elements == 0) return;
  sources_.clear();
  for (int rank = 0; rank < size_; ++rank) sources_.push_back(SourceOf(rank, part, number));
  targets_.clear();
  if (geometry.spreads_results()) {
    bool some_take_it_from_stage = false;
    for (int rank = 0; rank < size_; ++rank) {
      if (!geometry.Takes(rank)) continue;
      if (outputs_[rank] == nullptr) {
        some_take_it_from_stage = true;
      } else {
        targets_.push_back(outputs_[rank] + part.begin * present_.element_bytes);
      }
    }
    if (some_take_it_from_stage) targets_.push_back(segment_.result_stage(rank_, number));
  } else {
    targets_.push_back(operation.output.bytes() + round * present_.piece * present_.element_bytes);
  }
  Reduce(operation.reduction.op, operation.input.dtype, sources_, targets_, part.num_elements);
}

void Rounds::TakeBlocks(int64_t round) {
  const uint32_t number = num_rounds_ + static_cast<uint32_t>(round);
  const Geometry& geometry = *present_.geometry;
  // Each rank begins with another one.
  for (int i = 1; i <= size_; ++i) {
    const int from = (rank_ + i) % size_;
    if (!geometry.Gives(from)) continue;
    const Block part = PartOf(GivenBy(from), round);
    const std::byte* const source = SourceOf(from, part, number);
    std::byte* const target =
        present_.operation->output.bytes() +
        (geometry.Taken(from).begin + round * present_.piece) * present_.element_bytes;
    if (target == source || part.num_elements == 0) continue;
    std::memcpy(target, source, part.num_elements * present_.element_bytes);
  }
}

void Rounds::TakeResults(int64_t round) {
  const uint32_t number = num_rounds_ + static_cast<uint32_t>(round);
  const Geometry& geometry = *present_.geometry;
  const bool from_stage =
      geometry.spreads_results() && geometry.Takes(rank_) && !present_.output_is_reachable;
  if (!from_stage) return;
  AwaitConsumed(number + 1);
  for (int i = 1; i < size_; ++i) {
    const int rank = (rank_ + i) % size_;
    const Block part = PartOf(geometry.Slice(rank), round);
    std::memcpy(present_.operation->output.bytes() + part.begin * present_.element_bytes,
                segment_.result_stage(rank, number), part.num_elements * present_.element_bytes);
  }
}

void Rounds::AwaitConsumed(uint32_t num_rounds) {
  waiter_.AwaitAll([&](int rank) -> Counter& { return segment_.control(rank).consumed; },
                   num_rounds, present_.deadline);
}

}  // namespace ddp::shm
