#include "ddp/collectives/messages/chain_reduction.h"

#include <algorithm>

namespace ddp {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;
// Pieces of sums that a rank can have in its hands.
constexpr int64_t kNumStages = 4;

}  // namespace

ChainReduction::ChainReduction(Transport* transport, const ChainArithmetic& arithmetic,
                               const Buffer& input, const Buffer& output, Scratch* scratch,
                               Deadline deadline)
    : arithmetic_(arithmetic),
      input_(input),
      output_(output),
      num_ranks_above_(transport->size() - 1 - transport->rank()),
      piece_elements_(kPieceBytes / arithmetic.accumulator_bytes),
      num_pieces_((input.num_elements + piece_elements_ - 1) / piece_elements_),
      stages_(kNumStages) {
  const int below = transport->rank() - 1, above = transport->rank() + 1;
  const bool has_below = below >= 0, has_above = num_ranks_above_ > 0;
  std::byte* sums = scratch->Reserve(kNumStages * kPieceBytes);
  for (Stage& stage : stages_) {
    stage.sums = sums;
    if (has_below) stage.below = transport->Open(below, sums, kPieceBytes, deadline);
    if (has_above) stage.above = transport->Open(above, sums, kPieceBytes, deadline);
    sums += kPieceBytes;
  }
  const size_t num_bytes = output.num_bytes();
  if (has_above) results_from_above_ = transport->Open(above, output.data, num_bytes, deadline);
  if (has_below) results_to_below_ = transport->Open(below, output.data, num_bytes, deadline);
}

// The result of a piece takes two steps for each rank above to come back; it is passed on then.
// A rank that waits for it has done its part of all that the result needs.
void ChainReduction::Run(Deadline deadline) {
  for (int64_t n = 0; n < kNumStages; ++n) ReceiveSums(n);
  if (results_from_above_ != nullptr) {
    for (int64_t n = 0; n < num_pieces_; ++n) {
      results_from_above_->Receive(Slot::kGather, At(output_, n) - output_.bytes(),
                                   PieceElements(n) * ops::SizeOf(output_.dtype));
    }
  }
  const int64_t lag = 2 * num_ranks_above_;
  for (int64_t step = 0; step < num_pieces_ + lag; ++step) {
    if (step < num_pieces_) PassUp(step, deadline);
    if (step >= lag) PassDown(step - lag, deadline);
  }
  for (Stage& stage : stages_) {
    if (stage.above != nullptr) stage.above->AwaitSends(deadline);
  }
  if (results_to_below_ != nullptr) results_to_below_->AwaitSends(deadline);
}

void ChainReduction::ReceiveSums(int64_t n) {
  Channel* const below = StageOf(n).below.get();
  if (below == nullptr || n >= num_pieces_) return;
  below->Receive(Slot::kScatter, 0, PieceElements(n) * arithmetic_.accumulator_bytes);
}

void ChainReduction::PassUp(int64_t n, Deadline deadline) {
  const Stage& stage = StageOf(n);
  const int64_t num_elements = PieceElements(n);
  if (stage.below != nullptr) stage.below->AwaitReceive(deadline);
  arithmetic_.accumulate(At(input_, n), stage.sums, stage.below != nullptr, num_elements);
  if (stage.above == nullptr) {
    arithmetic_.finish(stage.sums, At(output_, n), num_elements);
  } else {
    stage.above->Send(Slot::kScatter, 0, num_elements * arithmetic_.accumulator_bytes);
  }
  // The stage of the piece before is free for another as soon as its sums have left.
  if (n == 0) return;
  if (stage.above != nullptr) StageOf(n - 1).above->AwaitSends(deadline);
  ReceiveSums(n - 1 + kNumStages);
}

void ChainReduction::PassDown(int64_t n, Deadline deadline) {
  if (results_from_above_ != nullptr) results_from_above_->AwaitReceive(deadline);
  if (results_to_below_ == nullptr) return;
  results_to_below_->Send(Slot::kGather, At(output_, n) - output_.bytes(),
                          PieceElements(n) * ops::SizeOf(output_.dtype));
}

ChainReduction::Stage& ChainReduction::StageOf(int64_t n) { return stages_[n % kNumStages]; }

int64_t ChainReduction::PieceElements(int64_t n) const {
  return std::min(piece_elements_, input_.num_elements - n * piece_elements_);
}

std::byte* ChainReduction::At(const Buffer& buffer, int64_t n) const {
  return buffer.bytes() + n * piece_elements_ * ops::SizeOf(buffer.dtype);
}

}  // namespace ddp
