#include "ddp/collectives/messages/chain.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "ddp/collectives/messages/chain_reduction.h"
#include "ddp/collectives/reduce.h"
#include "ddp/collectives/wide_average.h"

namespace ddp {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;

ChainArithmetic ArithmeticOf(ReduceOp op, ops::DType dtype, int num_ranks) {
  return {
      .accumulator_bytes =
          AccumulatorsPerElement(op, dtype) * ops::SizeOf(AccumulatorOf(op, dtype)),
      .accumulate =
          [=](const void* input, void* sums, bool go_on, int64_t num_elements) {
            Accumulate(op, dtype, {&input, 1}, sums, go_on, num_elements);
          },
      .finish =
          [=](const void* sums, void* output, int64_t num_elements) {
            Finish(op, dtype, sums, num_ranks, output, num_elements);
          },
  };
}

// The same with more exponent bits; keeps what is finite in the output.
ChainArithmetic WideAverage(ops::DType dtype, int num_ranks) {
  return {
      .accumulator_bytes = WideBytes(dtype),
      .accumulate =
          [=](const void* input, void* sums, bool go_on, int64_t num_elements) {
            AccumulateWide(dtype, input, sums, go_on, num_elements);
          },
      .finish =
          [=](const void* sums, void* output, int64_t num_elements) {
            FinishWide(dtype, sums, num_ranks, output, num_elements);
          },
  };
}

}  // namespace

bool Chain::Does(OperationKind kind) {
  return kind == OperationKind::kJoin || kind == OperationKind::kBarrier ||
         kind == OperationKind::kAllReduce || kind == OperationKind::kReduce ||
         kind == OperationKind::kBroadcast;
}

void Chain::Run(const Operation& operation, Deadline deadline) {
  switch (operation.kind) {
    case OperationKind::kBroadcast:
      return Broadcast(operation.output, operation.root, deadline);
    case OperationKind::kAllReduce:
      return AllReduce(operation, deadline);
    case OperationKind::kReduce: {
      // The result passes most ranks on its way to the root; only the root keeps it.
      Operation all_reduce = operation;
      if (transport_->rank() != operation.root) {
        all_reduce.output = operation.input;
        all_reduce.output.data = unwanted_.Reserve(operation.input.num_bytes());
      }
      return AllReduce(all_reduce, deadline);
    }
    default: {
      // A byte comes back when everyone has added to it.
      uint8_t token = 0;
      const Buffer buffer{&token, 1, ops::DType::kUInt8};
      return AllReduce({.kind = operation.kind, .input = buffer, .output = buffer}, deadline);
    }
  }
}

// Away from the root, both ways.
void Chain::Broadcast(const Buffer& buffer, int root, Deadline deadline) {
  const int rank = transport_->rank();
  const auto open = [&](int peer) {
    return transport_->Open(peer, buffer.data, buffer.num_bytes(), deadline);
  };
  std::unique_ptr<Channel> source;
  if (rank != root) source = open(rank < root ? rank + 1 : rank - 1);
  std::vector<std::unique_ptr<Channel>> targets;
  if (rank <= root && rank > 0) targets.push_back(open(rank - 1));
  if (rank >= root && rank + 1 < transport_->size()) targets.push_back(open(rank + 1));

  const int64_t num_bytes = buffer.num_bytes();
  const auto piece_bytes = [&](int64_t at) { return std::min(kPieceBytes, num_bytes - at); };
  for (int64_t at = 0; source != nullptr && at < num_bytes; at += kPieceBytes) {
    source->Receive(Slot::kGather, at, piece_bytes(at));
  }
  for (int64_t at = 0; at < num_bytes; at += kPieceBytes) {
    if (source != nullptr) source->AwaitReceive(deadline);
    for (const auto& target : targets) target->Send(Slot::kGather, at, piece_bytes(at));
  }
  for (const auto& target : targets) target->AwaitSends(deadline);
}

void Chain::AllReduce(const Operation& operation, Deadline deadline) {
  const ReduceOp op = operation.reduction.op;
  Buffer input = operation.input;
  const Buffer& output = operation.output;
  const bool may_overflow = op == ReduceOp::kAverage && ops::IsFloating(input.dtype);
  if (may_overflow && input.data == output.data && input.num_elements > 0) {
    input.data = input_copy_.Reserve(input.num_bytes());
    std::memcpy(input.data, output.data, input.num_bytes());
  }
  const auto run = [&](const ChainArithmetic& arithmetic) {
    ChainReduction(transport_, arithmetic, input, output, &stages_, deadline).Run(deadline);
  };
  run(ArithmeticOf(op, input.dtype, transport_->size()));
  // All ranks see the same result, so all of them decide alike.
  if (may_overflow && !IsFinite(output)) run(WideAverage(input.dtype, transport_->size()));
}

}  // namespace ddp
