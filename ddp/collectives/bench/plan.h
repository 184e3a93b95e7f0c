// What collectives_bench measures: the values of its flags.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/collectives/operation.h"
#include "ops/tensor/dtype.h"

namespace ddp::bench {

// Each operation is measured at each size.
struct Plan {
  std::vector<OperationKind> operations = {OperationKind::kAllReduce};
  std::vector<int64_t> sizes;  // bytes
  ops::DType dtype = ops::DType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  // Buffers from ProcessGroup::Allocate; else memory of the program's own.
  bool direct = false;
  double seconds = 0.3;  // for each size, about
};

// All throw std::invalid_argument that lists what is known.
std::vector<OperationKind> ParseOperations(std::string_view names);  // "all_reduce,broadcast"
ops::DType ParseDType(std::string_view name);
ReduceOp ParseReduceOp(std::string_view name);

// "4:64M" as 4, 16, ..., 64 MiB; "1K:8K:2" as 1024, 2048, 4096, 8192; "4096" as itself. K, M and G
// are powers of 1024; the last size is at most the upper end.
std::vector<int64_t> ParseSizes(std::string_view text);

std::vector<std::string> SplitNames(std::string_view names);  // "auto,gloo"

}  // namespace ddp::bench
