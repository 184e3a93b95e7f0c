// DirectAllReduce: the all-reduce of large buffers. Each rank owns a part of the elements. It gets
// this part from every peer, sums in rank order, and sends the result to every peer. Both ways a
// part travels in pieces, so that the sums of one overlap the transfers of the next.
//
// However the elements are cut up, each is summed in the same order: the cut can't change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/collectives/gloo/mesh.h"
#include "ddp/collectives/process_group.h"

namespace ddp::gloo_backend {

class DirectAllReduce {
 public:
  // A range of elements.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t size() const { return end - begin; }
  };

  // Who owns what, in which pieces.
  class Layout {
   public:
    Layout(const Buffer& buffer, int size);
    // The elements of `owner`, empty for some owners of small buffers.
    Range Part(int owner) const;
    // The n-th piece of a part.
    Range Piece(const Range& part, int64_t n) const;
    int64_t NumPieces(const Range& part) const;
    int64_t piece_elements() const { return piece_elements_; }
    // What a rank needs for pieces that arrive while it sums others.
    size_t scratch_bytes() const { return scratch_bytes_; }

   private:
    int64_t num_elements_;
    int64_t part_elements_;
    int64_t piece_elements_;
    size_t scratch_bytes_;
  };

  // `scratch` has layout.scratch_bytes().
  DirectAllReduce(Mesh* mesh, const Buffer& buffer, ReduceOp op, const Layout& layout,
                  std::byte* scratch);

  void PostReceives();
  // When all ranks have posted theirs.
  void Run(Deadline deadline);

 private:
  // What goes on with one peer: its pieces of my part arrive in `staging`; mine of its part leave
  // from `buffer`, and results come and go there.
  struct Peer {
    int rank;
    std::byte* staging_memory;
    Channel staging;
    Channel buffer;
  };

  void ReceivePiece(Peer& peer, int64_t n);
  void SendUnreduced();
  void ReducePiece(int64_t n, Deadline deadline);
  std::byte* StagingOf(const Peer& peer, int64_t n) const;
  std::byte* At(int64_t element) const;
  int64_t Bytes(int64_t num_elements) const { return num_elements * ops::SizeOf(buffer_.dtype); }

  const Buffer buffer_;
  const ReduceOp op_;
  const Layout layout_;
  const int rank_;
  const int size_;
  const Range own_;
  std::vector<Peer> peers_;
};

}  // namespace ddp::gloo_backend
