#include "ddp/collectives/gloo/direct_all_reduce.h"

#include <algorithm>

#include "ddp/collectives/reduce.h"

namespace ddp::gloo_backend {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;
// Pieces of one peer that may arrive before the first of them is summed.
constexpr int64_t kPiecesAhead = 4;
// Parts start on a cache line, whatever the dtype.
constexpr int64_t kPartAlignment = 64;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

DirectAllReduce::Layout::Layout(const Buffer& buffer, int size)
    : num_elements_(buffer.num_elements),
      part_elements_(CeilDivide(CeilDivide(num_elements_, size), kPartAlignment) * kPartAlignment),
      piece_elements_(std::min(part_elements_, kPieceBytes / ops::SizeOf(buffer.dtype))),
      scratch_bytes_(static_cast<size_t>((size - 1) * kPiecesAhead * piece_elements_ *
                                         ops::SizeOf(buffer.dtype))) {}

DirectAllReduce::Range DirectAllReduce::Layout::Part(int owner) const {
  return {std::min(owner * part_elements_, num_elements_),
          std::min((owner + 1) * part_elements_, num_elements_)};
}

DirectAllReduce::Range DirectAllReduce::Layout::Piece(const Range& part, int64_t n) const {
  return {part.begin + n * piece_elements_,
          std::min(part.begin + (n + 1) * piece_elements_, part.end)};
}

int64_t DirectAllReduce::Layout::NumPieces(const Range& part) const {
  return CeilDivide(part.size(), piece_elements_);
}

DirectAllReduce::DirectAllReduce(Mesh* mesh, const Buffer& buffer, ReduceOp op,
                                 const Layout& layout, std::byte* scratch)
    : buffer_(buffer),
      op_(op),
      layout_(layout),
      rank_(mesh->rank()),
      size_(mesh->size()),
      own_(layout.Part(mesh->rank())) {
  const int64_t staging_bytes = kPiecesAhead * Bytes(layout_.piece_elements());
  peers_.reserve(size_ - 1);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    std::byte* const memory = scratch + static_cast<int64_t>(peers_.size()) * staging_bytes;
    peers_.push_back({rank, memory, mesh->Open(rank, memory, staging_bytes),
                      mesh->Open(rank, buffer.data, buffer.num_bytes())});
  }
}

// A result is received into elements whose own values may not have left yet. That is safe: the peer
// that owns them can't have the result before it has received them.
void DirectAllReduce::PostReceives() {
  for (Peer& peer : peers_) {
    for (int64_t n = 0; n < kPiecesAhead; ++n) ReceivePiece(peer, n);
    const Range part = layout_.Part(peer.rank);
    for (int64_t n = 0; n < layout_.NumPieces(part); ++n) {
      const Range piece = layout_.Piece(part, n);
      peer.buffer.Receive(kGather, Bytes(piece.begin), Bytes(piece.size()));
    }
  }
}

void DirectAllReduce::Run(Deadline deadline) {
  SendUnreduced();
  for (int64_t n = 0; n < layout_.NumPieces(own_); ++n) ReducePiece(n, deadline);
  for (Peer& peer : peers_) {
    peer.buffer.AwaitReceives(deadline);
    peer.buffer.AwaitSends(deadline);
  }
}

void DirectAllReduce::ReceivePiece(Peer& peer, int64_t n) {
  if (n >= layout_.NumPieces(own_)) return;
  const int64_t offset = StagingOf(peer, n) - peer.staging_memory;
  peer.staging.Receive(kScatter, offset, Bytes(layout_.Piece(own_, n).size()));
}

// First pieces first, to all owners alike.
void DirectAllReduce::SendUnreduced() {
  const int64_t most_pieces = layout_.NumPieces(layout_.Part(0));
  for (int64_t n = 0; n < most_pieces; ++n) {
    for (Peer& peer : peers_) {
      const Range part = layout_.Part(peer.rank);
      if (n >= layout_.NumPieces(part)) continue;
      const Range piece = layout_.Piece(part, n);
      peer.buffer.Send(kScatter, Bytes(piece.begin), Bytes(piece.size()));
    }
  }
}

void DirectAllReduce::ReducePiece(int64_t n, Deadline deadline) {
  const Range piece = layout_.Piece(own_, n);
  std::vector<const void*> inputs(size_, At(piece.begin));
  for (Peer& peer : peers_) {
    peer.staging.AwaitReceive(deadline);
    inputs[peer.rank] = StagingOf(peer, n);
  }
  Reduce(op_, buffer_.dtype, inputs, At(piece.begin), piece.size());
  for (Peer& peer : peers_) {
    peer.buffer.Send(kGather, Bytes(piece.begin), Bytes(piece.size()));
    ReceivePiece(peer, n + kPiecesAhead);
  }
}

std::byte* DirectAllReduce::StagingOf(const Peer& peer, int64_t n) const {
  return peer.staging_memory + (n % kPiecesAhead) * Bytes(layout_.piece_elements());
}

std::byte* DirectAllReduce::At(int64_t element) const {
  return static_cast<std::byte*>(buffer_.data) + Bytes(element);
}

}  // namespace ddp::gloo_backend
