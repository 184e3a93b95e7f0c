// Measuring collectives on a group: every rank calls Measure with the same plan.
#pragma once

#include <cstdint>
#include <functional>

#include "ddp/collectives/bench/plan.h"
#include "ddp/collectives/process_group.h"

namespace ddp::bench {

// One operation at one size. Times are rank 0's, of operations that are issued and waited for one
// after the other.
struct Result {
  OperationKind operation = OperationKind::kAllReduce;
  // Of the largest buffer of a rank: the input of kReduceScatter, the output of kAllGather.
  int64_t num_bytes = 0;
  int64_t num_elements = 0;
  int64_t num_runs = 0;
  double median_seconds = 0;
  double min_seconds = 0;
  double p90_seconds = 0;
  double cpu_seconds = 0;  // of one operation, user and system, of all ranks' processes together
  int64_t num_wrong = 0;   // elements on all ranks that differ from the right bits

  // Bytes a second: of the operation, and of what each rank has to send and receive at least, which
  // is the same for any number of ranks that hardware serves alike (as nccl-tests define them).
  double algorithm_bandwidth() const { return static_cast<double>(num_bytes) / median_seconds; }
  double bus_bandwidth(int num_ranks) const;
};

// Calls `report` after each size; results count on rank 0.
void Measure(ProcessGroup& group, const Plan& plan,
             const std::function<void(const Result&)>& report);

}  // namespace ddp::bench
