// ChainReduction: one all-reduce along a chain of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ddp/collectives/messages/transport.h"
#include "ddp/collectives/operation.h"
#include "ddp/collectives/scratch.h"

namespace ddp {

// How values become sums, and sums results.
struct ChainArithmetic {
  int64_t accumulator_bytes;
  // Adds inputs to sums, or starts with them.
  std::function<void(const void* input, void* sums, bool go_on, int64_t num_elements)> accumulate;
  // On the last rank.
  std::function<void(const void* sums, void* output, int64_t num_elements)> finish;
};

class ChainReduction {
 public:
  // `output` is as large as `input`, or the same. `scratch` is this object's as long as it lives.
  ChainReduction(Transport* transport, const ChainArithmetic& arithmetic, const Buffer& input,
                 const Buffer& output, Scratch* scratch, Deadline deadline);

  void Run(Deadline deadline);

 private:
  // Where a piece's sums come from the rank below, and from where they go to the one above.
  struct Stage {
    std::byte* sums;
    std::unique_ptr<Channel> below;
    std::unique_ptr<Channel> above;
  };

  void ReceiveSums(int64_t n);
  void PassUp(int64_t n, Deadline deadline);
  void PassDown(int64_t n, Deadline deadline);
  Stage& StageOf(int64_t n);
  int64_t PieceElements(int64_t n) const;
  std::byte* At(const Buffer& buffer, int64_t n) const;

  const ChainArithmetic& arithmetic_;
  const Buffer input_;
  const Buffer output_;
  const int num_ranks_above_;
  const int64_t piece_elements_;
  const int64_t num_pieces_;
  std::vector<Stage> stages_;
  // Null at the ends of the chain.
  std::unique_ptr<Channel> results_from_above_;
  std::unique_ptr<Channel> results_to_below_;
};

}  // namespace ddp
