// Call: what a rank is about to do with its peers. Each rank tells each other before it sends or
// uses any data, so that ranks that disagree find out instead of mixing up bytes.
#pragma once

#include <cstdint>
#include <string>

#include "ddp/collectives/process_group.h"

namespace ddp::gloo_backend {

enum class Operation : uint8_t {
  kJoin,
  kAllReduce,
  kBroadcast,
  kAllGather,
  kBarrier,
  kExchangeBlobs
};

// Travels as it lies in memory. Fields that an operation doesn't use stay zero.
struct Call {
  uint32_t magic = 0x64647001;  // changes with the format
  Operation operation = Operation::kBarrier;
  ops::DType dtype = ops::DType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  int32_t root = 0;
  int64_t sequence_number = 0;
  int64_t num_elements = 0;

  // What ranks must agree about: everything.
  friend bool operator==(const Call&, const Call&) = default;
};

// "all_reduce #17 (float32[1024], sum)".
std::string Describe(const Call& call);

}  // namespace ddp::gloo_backend
