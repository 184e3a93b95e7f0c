#include "ddp/collectives/operation.h"

#include <fmt/format.h>

#include <numeric>
#include <span>
#include <stdexcept>

namespace ddp {
namespace {

constexpr uint32_t kUneven = 1;

// Blocks of any lengths hash to something else than 0 (FNV-1a).
uint32_t HashOf(std::span<const int64_t> counts) {
  if (counts.empty()) return 0;
  uint64_t hash = 0xcbf29ce484222325;
  for (const int64_t count : counts) hash = (hash ^ static_cast<uint64_t>(count)) * 0x100000001b3;
  return static_cast<uint32_t>(hash >> 32) | kUneven;
}

bool HasRoot(OperationKind kind) {
  return kind == OperationKind::kReduce || kind == OperationKind::kBroadcast ||
         kind == OperationKind::kGather || kind == OperationKind::kScatter ||
         kind == OperationKind::kSend || kind == OperationKind::kReceive;
}

bool HasData(OperationKind kind) {
  return kind != OperationKind::kBarrier && kind != OperationKind::kJoin;
}

}  // namespace

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kAverage:
      return "average";
    case ReduceOp::kProduct:
      return "product";
    case ReduceOp::kMin:
      return "min";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kBitAnd:
      return "bit_and";
    case ReduceOp::kBitOr:
      return "bit_or";
    case ReduceOp::kBitXor:
      return "bit_xor";
    case ReduceOp::kPremultipliedSum:
      return "premultiplied_sum";
  }
  throw std::invalid_argument("not a reduce operation");
}

std::string_view Name(OperationKind kind) {
  switch (kind) {
    case OperationKind::kJoin:
      return "joining the group";
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kAllReduce:
      return "all_reduce";
    case OperationKind::kReduce:
      return "reduce";
    case OperationKind::kReduceScatter:
      return "reduce_scatter";
    case OperationKind::kBroadcast:
      return "broadcast";
    case OperationKind::kAllGather:
      return "all_gather";
    case OperationKind::kGather:
      return "gather";
    case OperationKind::kScatter:
      return "scatter";
    case OperationKind::kAllToAll:
      return "all_to_all";
    case OperationKind::kSend:
      return "send";
    case OperationKind::kReceive:
      return "receive";
  }
  return "an unknown operation";
}

bool Reduces(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduce ||
         kind == OperationKind::kReduceScatter;
}

Block Operation::BlockOf(const Buffer& buffer, const std::vector<int64_t>& counts, int rank,
                         int size) {
  if (counts.empty()) {
    const int64_t num_elements = buffer.num_elements / size;
    return {rank * num_elements, num_elements};
  }
  Block block{0, counts[rank]};
  for (int before = 0; before < rank; ++before) block.begin += counts[before];
  return block;
}

// The buffer that every rank has in this operation.
const Buffer& CommonBuffer(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kBroadcast:
    case OperationKind::kScatter:
    case OperationKind::kReduceScatter:
    case OperationKind::kReceive:
      return operation.output;
    default:
      return operation.input;
  }
}

Call CallOf(const Operation& operation, int64_t sequence_number) {
  Call call;
  call.kind = operation.kind;
  call.sequence_number = sequence_number;
  if (!HasData(operation.kind)) return call;
  const Buffer& common = CommonBuffer(operation);
  call.dtype = common.dtype;
  call.num_elements = common.num_elements;
  if (Reduces(operation.kind)) call.reduce_op = operation.reduction.op;
  if (HasRoot(operation.kind)) call.root = operation.root;
  const std::vector<int64_t>& counts =
      operation.input_counts.empty() ? operation.output_counts : operation.input_counts;
  if (!counts.empty()) {
    // Each rank of an all-to-all has its own.
    const bool agreed = operation.kind != OperationKind::kAllToAll;
    call.num_elements = agreed ? std::accumulate(counts.begin(), counts.end(), int64_t{0}) : 0;
    call.counts_hash = agreed ? HashOf(counts) : kUneven;
  }
  return call;
}

std::string Describe(const Call& call) {
  if (call.magic != Call().magic) return "something that another version calls";
  if (call.kind == OperationKind::kJoin) return std::string(Name(call.kind));
  std::string text = fmt::format("{} #{}", Name(call.kind), call.sequence_number);
  if (!HasData(call.kind)) return text;
  text += fmt::format(" ({}[{}]", Name(call.dtype), call.num_elements);
  if (call.counts_hash != 0) text += ", uneven";
  if (Reduces(call.kind)) text += fmt::format(", {}", Name(call.reduce_op));
  if (HasRoot(call.kind)) {
    const bool from = call.kind == OperationKind::kBroadcast ||
                      call.kind == OperationKind::kScatter || call.kind == OperationKind::kReceive;
    text += fmt::format(", {} rank {}", from ? "from" : "to", call.root);
  }
  return text + ")";
}

std::string DescribeDisagreement(int rank, const Call& call, int peer, const Call& theirs) {
  const std::string mine = Describe(call), other = Describe(theirs);
  return fmt::format("rank {} called {}, rank {} called {}{}", rank, mine, peer, other,
                     mine == other ? " with other counts" : "");
}

}  // namespace ddp
