// Operation: one collective, as data: what ProcessGroup's functions are called with, and what
// backends run.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/tensor/device.h"
#include "ops/tensor/dtype.h"

namespace ddp {

// Elements somewhere in memory: a tensor's, or those of any program.
struct Buffer {
  void* data = nullptr;
  int64_t num_elements = 0;
  ops::DType dtype = ops::DType::kFloat32;
  ops::Device device = ops::Device::Cpu();

  int64_t num_bytes() const { return num_elements * ops::SizeOf(dtype); }
  std::byte* bytes() const { return static_cast<std::byte*>(data); }
};

// kAverage divides the sum by the number of ranks (integers truncate); it does not overflow where
// its result would not. The bit operations are for integers.
enum class ReduceOp : uint8_t {
  kSum,
  kAverage,
  kProduct,
  kMin,
  kMax,
  kBitAnd,
  kBitOr,
  kBitXor,
  kPremultipliedSum
};
std::string_view Name(ReduceOp op);

// How ranks' values become one. Converts from a ReduceOp, so that callers write ReduceOp::kSum.
struct Reduction {
  Reduction(ReduceOp op) : op(op) {}  // NOLINT: implicit on purpose

  ReduceOp op;
  // Of kPremultipliedSum: each rank's values are multiplied by its own factor, rounded to their
  // dtype, and then summed. For floating point.
  double factor = 1;
};

inline Reduction PremultipliedSum(double factor) {
  Reduction reduction = ReduceOp::kPremultipliedSum;
  reduction.factor = factor;
  return reduction;
}

enum class OperationKind : uint8_t {
  kJoin,  // the first of a group: every rank has come
  kBarrier,
  kAllReduce,
  kReduce,
  kReduceScatter,
  kBroadcast,
  kAllGather,
  kGather,
  kScatter,
  kAllToAll,
  kSend,
  kReceive,
};
std::string_view Name(OperationKind kind);  // "all_reduce"
// Whether it has a Reduction.
bool Reduces(OperationKind kind);

// A range of a buffer that belongs to one rank, in elements.
struct Block {
  int64_t begin = 0;
  int64_t num_elements = 0;
  int64_t end() const { return begin + num_elements; }
};

struct Operation {
  OperationKind kind = OperationKind::kBarrier;
  // What this rank gives and gets; the same buffer where the operation is in place. Empty, of
  // the same dtype, where a rank has no part (the output of a Reduce on all but the root).
  // Broadcast has the output only.
  Buffer input = {};
  Buffer output = {};
  Reduction reduction = ReduceOp::kSum;
  int root = 0;  // the peer of kSend and kReceive
  // Elements by rank, where blocks are uneven; empty: even ones. Of kReduceScatter and kScatter the
  // input's blocks, of kAllGather and kGather the output's, the same on all ranks; of kAllToAll
  // both are this rank's own.
  std::vector<int64_t> input_counts = {};
  std::vector<int64_t> output_counts = {};

  // The block of `rank` in a buffer that is cut up among `size` ranks.
  Block InputBlock(int rank, int size) const { return BlockOf(input, input_counts, rank, size); }
  Block OutputBlock(int rank, int size) const { return BlockOf(output, output_counts, rank, size); }

 private:
  static Block BlockOf(const Buffer& buffer, const std::vector<int64_t>& counts, int rank,
                       int size);
};

// What ranks must agree about before bytes may meet, as it travels: compared byte by byte.
// kAllToAll's counts are each pair's own affair.
struct Call {
  uint32_t magic = 0x64647002;  // changes with the format
  OperationKind kind = OperationKind::kBarrier;
  ops::DType dtype = ops::DType::kFloat32;
  ReduceOp reduce_op = ReduceOp::kSum;
  uint8_t unused = 0;
  int32_t root = 0;
  uint32_t counts_hash = 0;  // 0: even blocks; of the counts that all ranks share
  int64_t sequence_number = 0;
  // Of the buffer that all ranks have (CommonBuffer), or of the whole where blocks are uneven.
  int64_t num_elements = 0;

  friend bool operator==(const Call&, const Call&) = default;
};
static_assert(sizeof(Call) == 32);

// The buffer that every rank has in an operation: the output of those that only rank `root` gives
// to, or that end in a block; else the input.
const Buffer& CommonBuffer(const Operation& operation);

Call CallOf(const Operation& operation, int64_t sequence_number);

// "all_reduce #17 (float32[1024], sum)".
std::string Describe(const Call& call);
// "rank 0 called all_reduce #3 (float32[4], sum), rank 1 called broadcast #3 (...)".
std::string DescribeDisagreement(int rank, const Call& call, int peer, const Call& theirs);

}  // namespace ddp
