// DirectReduction: all-reduce, reduce and reduce-scatter of large buffers. Each element has an
// owner, which gets it from every peer and reduces in rank order; for an all-reduce the owner sends
// the result to every peer. Parts travel in pieces, so that the sums of one overlap the transfers
// of the next.
//
// However the elements are cut up, each is reduced in the same order: the cut can't change a bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ddp/collectives/messages/transport.h"
#include "ddp/collectives/operation.h"
#include "ddp/collectives/scratch.h"

namespace ddp {

class DirectReduction {
 public:
  // The ranks are connected. `scratch` is this object's as long as it lives.
  DirectReduction(Transport* transport, const Operation& operation, Scratch* scratch,
                  Deadline deadline);

  void PostReceives();
  // When all ranks agree.
  void Run(Deadline deadline);

 private:
  // What goes on with one peer: its pieces of my part arrive in `staging`, mine of its part leave
  // from `input`, and results are exchanged in `output`.
  struct Peer {
    int rank;
    Block part;
    std::byte* staging_memory;
    std::unique_ptr<Channel> staging;
    std::unique_ptr<Channel> input;
    std::unique_ptr<Channel> output;  // of an all-reduce
  };

  void OpenChannels(Transport* transport, Scratch* scratch, Deadline deadline);
  void ReceivePiece(Peer& peer, int64_t n);
  void SendUnreduced();
  void ReducePiece(int64_t n, Deadline deadline);
  // The n-th piece of a part.
  Block Piece(const Block& part, int64_t n) const;
  int64_t NumPieces(const Block& part) const;
  std::byte* StagingOf(const Peer& peer, int64_t n) const;
  // Where the results of this rank's own part go.
  std::byte* ResultAt(int64_t element) const;
  int64_t Bytes(int64_t num_elements) const { return num_elements * element_bytes_; }

  const Operation operation_;
  const int rank_;
  const int size_;
  const int64_t element_bytes_;
  const bool shares_;               // whether everyone gets the results
  const std::vector<Block> parts_;  // by owner
  const int64_t piece_elements_;
  std::vector<Peer> peers_;
};

}  // namespace ddp
