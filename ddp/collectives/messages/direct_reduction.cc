#include "ddp/collectives/messages/direct_reduction.h"

#include <algorithm>

#include "ddp/collectives/reduce.h"

namespace ddp {
namespace {

constexpr int64_t kMaxPieceBytes = 256 << 10;
// Pieces of one peer that may arrive before the first of them is reduced.
constexpr int64_t kPiecesAhead = 4;
// Of all peers together.
constexpr int64_t kMaxStagingBytes = 8 << 20;
// In an all-reduce, parts start on a cache line, whatever the dtype.
constexpr int64_t kPartAlignment = 64;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The parts that the ranks of an operation own.
std::vector<Block> PartsOf(const Operation& operation, int size) {
  std::vector<Block> parts(size);
  const int64_t num_elements = operation.input.num_elements;
  switch (operation.kind) {
    case OperationKind::kReduce:
      parts[operation.root] = {0, num_elements};
      break;
    case OperationKind::kReduceScatter:
      for (int rank = 0; rank < size; ++rank) parts[rank] = operation.InputBlock(rank, size);
      break;
    default:
      const int64_t part =
          CeilDivide(CeilDivide(num_elements, size), kPartAlignment) * kPartAlignment;
      for (int rank = 0; rank < size; ++rank) {
        const int64_t begin = std::min(rank * part, num_elements);
        parts[rank] = {begin, std::min(part, num_elements - begin)};
      }
  }
  return parts;
}

int64_t PieceElements(const std::vector<Block>& parts, int64_t element_bytes) {
  const int64_t num_peers = std::max<int64_t>(std::ssize(parts) - 1, 1);
  const int64_t piece_bytes =
      std::min(kMaxPieceBytes, kMaxStagingBytes / (kPiecesAhead * num_peers));
  const int64_t largest = std::ranges::max(parts, {}, &Block::num_elements).num_elements;
  return std::min(piece_bytes / element_bytes, std::max<int64_t>(largest, 1));
}

}  // namespace

DirectReduction::DirectReduction(Transport* transport, const Operation& operation, Scratch* scratch,
                                 Deadline deadline)
    : operation_(operation),
      rank_(transport->rank()),
      size_(transport->size()),
      element_bytes_(ops::SizeOf(operation.input.dtype)),
      shares_(operation.kind == OperationKind::kAllReduce),
      parts_(PartsOf(operation, size_)),
      piece_elements_(PieceElements(parts_, element_bytes_)) {
  OpenChannels(transport, scratch, deadline);
}

void DirectReduction::OpenChannels(Transport* transport, Scratch* scratch, Deadline deadline) {
  const bool owns = parts_[rank_].num_elements > 0;
  const size_t staging_bytes = owns ? kPiecesAhead * Bytes(piece_elements_) : 0;
  std::byte* staging = scratch->Reserve((size_ - 1) * staging_bytes);
  const Buffer& input = operation_.input;
  const Buffer& output = operation_.output;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    Peer& peer = peers_.emplace_back(rank, parts_[rank], staging);
    if (owns) peer.staging = transport->Open(rank, staging, staging_bytes, deadline);
    peer.input = transport->Open(rank, input.data, input.num_bytes(), deadline);
    if (shares_) peer.output = transport->Open(rank, output.data, output.num_bytes(), deadline);
    staging += staging_bytes;
  }
}

// A result is received into elements whose own values may not have left yet. That is safe: the peer
// that owns them can't have the result before it has received them.
void DirectReduction::PostReceives() {
  for (Peer& peer : peers_) {
    for (int64_t n = 0; n < kPiecesAhead; ++n) ReceivePiece(peer, n);
    if (!shares_) continue;
    for (int64_t n = 0; n < NumPieces(peer.part); ++n) {
      const Block piece = Piece(peer.part, n);
      peer.output->Receive(Slot::kGather, Bytes(piece.begin), Bytes(piece.num_elements));
    }
  }
}

void DirectReduction::Run(Deadline deadline) {
  SendUnreduced();
  for (int64_t n = 0; n < NumPieces(parts_[rank_]); ++n) ReducePiece(n, deadline);
  for (Peer& peer : peers_) {
    peer.input->AwaitSends(deadline);
    if (!shares_) continue;
    peer.output->AwaitReceives(deadline);
    peer.output->AwaitSends(deadline);
  }
}

void DirectReduction::ReceivePiece(Peer& peer, int64_t n) {
  if (n >= NumPieces(parts_[rank_])) return;
  const int64_t offset = StagingOf(peer, n) - peer.staging_memory;
  peer.staging->Receive(Slot::kScatter, offset, Bytes(Piece(parts_[rank_], n).num_elements));
}

// First pieces first, to all owners alike.
void DirectReduction::SendUnreduced() {
  int64_t most_pieces = 0;
  for (const Peer& peer : peers_) most_pieces = std::max(most_pieces, NumPieces(peer.part));
  for (int64_t n = 0; n < most_pieces; ++n) {
    for (Peer& peer : peers_) {
      if (n >= NumPieces(peer.part)) continue;
      const Block piece = Piece(peer.part, n);
      peer.input->Send(Slot::kScatter, Bytes(piece.begin), Bytes(piece.num_elements));
    }
  }
}

void DirectReduction::ReducePiece(int64_t n, Deadline deadline) {
  const Block piece = Piece(parts_[rank_], n);
  std::vector<const void*> inputs(size_, operation_.input.bytes() + Bytes(piece.begin));
  for (Peer& peer : peers_) {
    peer.staging->AwaitReceive(deadline);
    inputs[peer.rank] = StagingOf(peer, n);
  }
  void* const result = ResultAt(piece.begin);
  Reduce(operation_.reduction.op, operation_.input.dtype, inputs, {&result, 1}, piece.num_elements);
  for (Peer& peer : peers_) {
    if (shares_) {
      peer.output->Send(Slot::kGather, Bytes(piece.begin), Bytes(piece.num_elements));
    }
    ReceivePiece(peer, n + kPiecesAhead);
  }
}

Block DirectReduction::Piece(const Block& part, int64_t n) const {
  const int64_t begin = n * piece_elements_;
  return {part.begin + begin, std::min(piece_elements_, part.num_elements - begin)};
}

int64_t DirectReduction::NumPieces(const Block& part) const {
  return CeilDivide(part.num_elements, piece_elements_);
}

std::byte* DirectReduction::StagingOf(const Peer& peer, int64_t n) const {
  return peer.staging_memory + (n % kPiecesAhead) * Bytes(piece_elements_);
}

std::byte* DirectReduction::ResultAt(int64_t element) const {
  const int64_t first = shares_ ? 0 : parts_[rank_].begin;
  return operation_.output.bytes() + Bytes(element - first);
}

}  // namespace ddp
