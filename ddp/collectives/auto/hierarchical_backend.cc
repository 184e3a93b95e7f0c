#include "ddp/collectives/auto/hierarchical_backend.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "ddp/collectives/reduce.h"
#include "ddp/collectives/wide_average.h"

namespace ddp {
namespace {

using Kind = OperationKind;

// What is left of a reduction between accumulators: dividing and scaling happen before and after.
ReduceOp BetweenAccumulators(ReduceOp op) {
  return op == ReduceOp::kAverage || op == ReduceOp::kPremultipliedSum ? ReduceOp::kSum : op;
}

// Whether an average may have been infinite on its way only.
bool MayOverflow(const Operation& operation) {
  const ops::DType dtype = operation.input.dtype;
  return operation.reduction.op == ReduceOp::kAverage && ops::IsFloating(dtype) &&
         dtype != ops::DType::kFloat64;
}

std::vector<int> AllRanks(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

HierarchicalBackend::HierarchicalBackend(const Meeting& meeting, const HostPlan& plan,
                                         MakeBackend make_local, MakeBackend make_remote)
    : rank_(meeting.rank()), size_(meeting.size()), plan_(plan) {
  const auto make = [&](Part& part, std::vector<int> ranks, const std::string& name,
                        MakeBackend make_backend) {
    part.ranks = std::move(ranks);
    if (part.ranks.size() == 1) return;
    part.backend = make_backend(MeetingOf(meeting, part.ranks, name));
  };
  make(local_, plan_.local_ranks(), "host/" + std::to_string(plan_.host), make_local);
  if (plan_.is_leader()) make(leaders_, plan_.leaders(), "leaders", make_remote);
  make(all_, AllRanks(size_), "all", make_remote);
}

void HierarchicalBackend::Run(const Operation& operation, const Call& call, Deadline deadline) {
  ++sequence_number_;
  switch (operation.kind) {
    case Kind::kAllReduce:
      Agree(call, deadline);
      return AllReduce(operation, deadline);
    case Kind::kReduce:
      Agree(call, deadline);
      return Reduce(operation, deadline);
    case Kind::kBroadcast:
      Agree(call, deadline);
      return Broadcast(operation.output, operation.root, deadline);
    case Kind::kJoin:
    case Kind::kBarrier:
      Agree(call, deadline);
      // A host's ranks may go when the other hosts have come too.
      return RunOn(local_, {.kind = Kind::kBarrier}, deadline);
    default:
      Agree(call, deadline);
      return RunOn(all_, operation, deadline);
  }
}

void HierarchicalBackend::RunOn(const Part& part, Operation operation, Deadline deadline) {
  if (part.backend == nullptr) return;
  operation.root =
      static_cast<int>(std::ranges::find(part.ranks, operation.root) - part.ranks.begin());
  const Call call = CallOf(operation, sequence_number_);
  try {
    part.backend->Run(operation, call, deadline);
  } catch (const PeerTrouble& trouble) {
    std::vector<int> ranks;
    for (const int rank : trouble.ranks()) ranks.push_back(part.ranks[rank]);
    throw PeerTrouble(trouble.kind(), std::move(ranks), trouble.reason());
  }
}

// Inside the hosts first, then between them; whoever sees a difference ends the group for all.
void HierarchicalBackend::Agree(const Call& call, Deadline deadline) {
  AgreeOn(local_, call, deadline);
  AgreeOn(leaders_, call, deadline);
}

void HierarchicalBackend::AgreeOn(const Part& part, const Call& call, Deadline deadline) {
  std::vector<Call> calls(part.ranks.size());
  const int64_t num_bytes = sizeof(Call);
  Call mine = call;
  RunOn(part,
        {.kind = Kind::kAllGather,
         .input = {&mine, num_bytes, ops::DType::kUInt8},
         .output = {calls.data(), num_bytes * static_cast<int64_t>(calls.size()),
                    ops::DType::kUInt8}},
        deadline);
  if (part.backend == nullptr) return;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i] == call) continue;
    throw Disagreement(part.ranks[i], DescribeDisagreement(rank_, call, part.ranks[i], calls[i]));
  }
}

void HierarchicalBackend::Broadcast(const Buffer& buffer, int root, Deadline deadline) {
  const int root_host = plan_.HostOf(root);
  const Operation from_root{.kind = Kind::kBroadcast, .output = buffer, .root = root};
  Operation from_leader = from_root;
  from_leader.root = leader();
  if (plan_.host == root_host) RunOn(local_, from_root, deadline);
  Operation between = from_root;
  between.root = plan_.hosts[root_host].front();
  RunOn(leaders_, between, deadline);
  if (plan_.host != root_host) RunOn(local_, from_leader, deadline);
}

void HierarchicalBackend::AllReduce(const Operation& operation, Deadline deadline) {
  const ReduceOp op = operation.reduction.op;
  const Buffer& output = operation.output;
  const Buffer sums = ReduceToLeaders(operation, deadline);
  Buffer wide_sums;
  if (MayOverflow(operation) && !FiniteOnLeaders(sums, deadline)) {
    wide_sums = ReduceWideToLeaders(operation, deadline);
  }
  if (plan_.is_leader()) {
    Finish(op, output.dtype, sums.data, size_, output.data, output.num_elements);
    if (wide_sums.num_elements > 0) {
      FinishWide(output.dtype, wide_sums.data, size_, output.data, output.num_elements);
    }
  }
  RunOn(local_, {.kind = Kind::kBroadcast, .output = output, .root = leader()}, deadline);
}

// Everybody's reduction, which all but the root throw away.
void HierarchicalBackend::Reduce(const Operation& operation, Deadline deadline) {
  Operation for_all = operation;
  for_all.kind = Kind::kAllReduce;
  if (rank_ != operation.root) {
    for_all.output = operation.input;
    for_all.output.data = thrown_away_.Reserve(operation.input.num_bytes());
  }
  AllReduce(for_all, deadline);
}

Buffer HierarchicalBackend::ReduceToLeaders(const Operation& operation, Deadline deadline) {
  const Buffer& input = operation.input;
  const ReduceOp op = operation.reduction.op;
  Buffer own = input;
  own.dtype = AccumulatorOf(op, input.dtype);
  own.num_elements *= AccumulatorsPerElement(op, input.dtype);
  if (own.num_bytes() != input.num_bytes()) {
    own.data = own_.Reserve(own.num_bytes());
    const void* const first = input.data;
    Accumulate(op, input.dtype, {&first, 1}, own.data, false, input.num_elements);
  }
  return SumOnLeaders(own, BetweenAccumulators(op), &sums_, deadline);
}

Buffer HierarchicalBackend::ReduceWideToLeaders(const Operation& operation, Deadline deadline) {
  const Buffer& input = operation.input;
  Buffer own{nullptr, input.num_elements, ops::DType::kFloat64};
  own.data = own_.Reserve(own.num_bytes());
  AccumulateWide(input.dtype, input.data, own.data, false, input.num_elements);
  return SumOnLeaders(own, ReduceOp::kSum, &wide_sums_, deadline);
}

Buffer HierarchicalBackend::SumOnLeaders(Buffer own, ReduceOp op, Scratch* scratch,
                                         Deadline deadline) {
  Buffer sums{nullptr, 0, own.dtype};
  if (plan_.is_leader()) sums = {scratch->Reserve(own.num_bytes()), own.num_elements, own.dtype};
  if (local_.backend != nullptr) {
    RunOn(local_,
          {.kind = Kind::kReduce, .input = own, .output = sums, .reduction = op, .root = leader()},
          deadline);
    own = sums;
  }
  RunOn(leaders_, {.kind = Kind::kAllReduce, .input = own, .output = sums, .reduction = op},
        deadline);
  return sums;
}

// All leaders have the same sums, and tell their hosts.
bool HierarchicalBackend::FiniteOnLeaders(const Buffer& sums, Deadline deadline) {
  uint8_t finite = plan_.is_leader() && IsFinite(sums);
  RunOn(local_,
        {.kind = Kind::kBroadcast, .output = {&finite, 1, ops::DType::kUInt8}, .root = leader()},
        deadline);
  return finite != 0;
}

void HierarchicalBackend::Exchange(std::span<const Operation> operations, Deadline deadline) {
  all_.backend->Exchange(operations, deadline);
}

ops::Memory HierarchicalBackend::Allocate(int64_t num_bytes) {
  return (local_.backend != nullptr ? local_ : all_).backend->Allocate(num_bytes);
}

void HierarchicalBackend::Stop() {
  for (const Part* const part : {&local_, &leaders_, &all_}) {
    if (part->backend != nullptr) part->backend->Stop();
  }
}

void HierarchicalBackend::Close() {
  for (const Part* const part : {&local_, &leaders_, &all_}) {
    if (part->backend != nullptr) part->backend->Close();
  }
}

}  // namespace ddp
