// Trial: the buffers of one operation at one size, with values whose result is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ddp/collectives/bench/plan.h"
#include "ddp/collectives/process_group.h"

namespace ddp::bench {

class Trial {
 public:
  // `num_bytes` is rounded so that each rank's part has whole elements, at least one.
  Trial(ProcessGroup& group, const Plan& plan, OperationKind operation, int64_t num_bytes);

  int64_t num_elements() const { return num_elements_; }

  // Gives the buffers the values that CountWrong() knows.
  void Fill();
  // Values that stay as they are however often the operation is run in place.
  void FillWithZeros();
  void Run();
  // After Fill() and Run(): elements of the result whose bits aren't those of the result in rank
  // order.
  int64_t CountWrong() const;

 private:
  // Values of one rank, from its element `begin` on.
  const std::byte* Values(int rank, int64_t begin) const;
  // The right results from element `begin` of the output on.
  const std::byte* Expected(int64_t begin, int64_t num_elements, std::byte* scratch) const;

  ProcessGroup& group_;
  const OperationKind operation_;
  const ops::DType dtype_;
  const ReduceOp reduce_op_;
  const int64_t per_rank_;      // elements in the block of a rank
  const int64_t num_elements_;  // in all blocks
  ops::Memory input_memory_, output_memory_;
  Buffer input_, output_;                       // the same where the operation runs in place
  std::vector<std::vector<std::byte>> values_;  // by rank
};

}  // namespace ddp::bench
