// Join: ranks with different numbers of batches.
//
//   ddp::Join(replicated, [&] {
//     while (std::optional<Batch> batch = NextBatch()) Step(*batch);
//   });
//
// A rank whose body has ended takes part, with zeros, in what the others still do together: their
// buffers and their gradients, whatever they accumulate and whichever hook they use. Without Join
// they would wait for it until their timeout.
#pragma once

#include <functional>

namespace ddp {

class DistributedDataParallel;

struct JoinOptions {
  // Averages are over all ranks, as PyTorch's: a batch counts the same whoever is still there. With
  // this, over those that still have batches. (With Average::kWeights, weights count in any case.)
  bool divide_by_active = false;
  // Called on ranks without a batch after each Backward of the others, whose gradients they then
  // have too: with the optimizer's step here, ranks stay equal throughout, optimizers included.
  std::function<void()> after_backward = nullptr;
};

// Calls `body` and returns when every rank's has ended; all ranks call it. Without after_backward,
// the model's parameters and buffers are then overwritten by those of a rank that ended last;
// optimizers' states of ranks that ended before stay behind. A body that throws aborts the group.
// Other collectives inside `body` are its own affair: a rank that has ended doesn't take part in
// those (SynchronizeBatchNorm's among them).
void Join(DistributedDataParallel& replicated, const std::function<void()>& body,
          const JoinOptions& options = {});

}  // namespace ddp
