#include "ddp/collectives/bench/trial.h"

#include <algorithm>
#include <cstring>

#include "ddp/collectives/reduce.h"

namespace ddp::bench {
namespace {

// Element i of rank r is r + 1 + i % kPeriod: sums of these are exact in every dtype, and neither
// ranks nor neighbours can be taken for each other.
constexpr int64_t kPeriod = 7;
// Elements that are compared at a time.
constexpr int64_t kChunk = 4096;

std::vector<std::byte> MakeValues(ops::DType dtype, int rank) {
  std::vector<std::byte> values((kChunk + kPeriod) * ops::SizeOf(dtype));
  ops::Dispatch(dtype, [&]<class T>() {
    T* const elements = reinterpret_cast<T*>(values.data());
    for (int64_t i = 0; i < kChunk + kPeriod; ++i) {
      elements[i] = static_cast<T>(static_cast<float>(rank + 1 + i % kPeriod));
    }
  });
  return values;
}

int64_t CountDifferent(const std::byte* a, const std::byte* b, int64_t num_elements,
                       int64_t element_size) {
  if (std::memcmp(a, b, num_elements * element_size) == 0) return 0;
  int64_t count = 0;
  for (int64_t i = 0; i < num_elements; ++i) {
    count += std::memcmp(a + i * element_size, b + i * element_size, element_size) != 0;
  }
  return count;
}

// Calls f(begin, num_elements) for pieces of a buffer.
template <class F>
void ForEachChunk(int64_t num_elements, F f) {
  for (int64_t begin = 0; begin < num_elements; begin += kChunk) {
    f(begin, std::min(kChunk, num_elements - begin));
  }
}

bool IsInPlace(OperationKind operation) {
  return operation == OperationKind::kAllReduce || operation == OperationKind::kBroadcast;
}

}  // namespace

Trial::Trial(ProcessGroup& group, const Plan& plan, OperationKind operation, int64_t num_bytes)
    : group_(group),
      operation_(operation),
      dtype_(plan.dtype),
      reduce_op_(plan.reduce_op),
      per_rank_(std::max<int64_t>(num_bytes / ops::SizeOf(dtype_) / group.size(), 1)),
      num_elements_(IsInPlace(operation) ? std::max<int64_t>(num_bytes / ops::SizeOf(dtype_), 1)
                                         : per_rank_ * group.size()) {
  const auto allocate = [&](int64_t num_elements, ops::Memory& memory) -> Buffer {
    const int64_t bytes = num_elements * ops::SizeOf(dtype_);
    memory = plan.direct ? group.Allocate(bytes, ops::Device::Cpu()) : ops::AllocateMemory(bytes);
    return {memory.get(), num_elements, dtype_};
  };
  const bool gathers = operation == OperationKind::kAllGather;
  const bool scatters = operation == OperationKind::kReduceScatter;
  input_ = allocate(gathers ? per_rank_ : num_elements_, input_memory_);
  output_ = IsInPlace(operation) ? input_
                                 : allocate(scatters ? per_rank_ : num_elements_, output_memory_);
  for (int rank = 0; rank < group.size(); ++rank) values_.push_back(MakeValues(dtype_, rank));
}

const std::byte* Trial::Values(int rank, int64_t begin) const {
  return values_[rank].data() + begin % kPeriod * ops::SizeOf(dtype_);
}

void Trial::Fill() {
  std::memset(output_.data, 0, output_.num_bytes());
  const int64_t element_size = ops::SizeOf(dtype_);
  ForEachChunk(input_.num_elements, [&](int64_t begin, int64_t num_elements) {
    std::memcpy(input_.bytes() + begin * element_size, Values(group_.rank(), begin),
                num_elements * element_size);
  });
}

void Trial::FillWithZeros() { std::memset(input_.data, 0, input_.num_bytes()); }

void Trial::Run() {
  switch (operation_) {
    case OperationKind::kAllGather:
      return group_.AllGather(input_, output_)->Wait();
    case OperationKind::kReduceScatter:
      return group_.ReduceScatter(input_, output_, reduce_op_)->Wait();
    case OperationKind::kBroadcast:
      return group_.Broadcast(input_, 0)->Wait();
    case OperationKind::kAllToAll:
      return group_.AllToAll(input_, output_)->Wait();
    default:
      return group_.AllReduce(input_, reduce_op_)->Wait();
  }
}

const std::byte* Trial::Expected(int64_t begin, int64_t num_elements, std::byte* scratch) const {
  if (operation_ == OperationKind::kBroadcast) return Values(0, begin);
  // Pieces lie inside one rank's block.
  const int sender = static_cast<int>(begin / per_rank_);
  const int64_t within = begin % per_rank_;
  if (operation_ == OperationKind::kAllGather) return Values(sender, within);
  const int64_t my_block = group_.rank() * per_rank_;
  if (operation_ == OperationKind::kAllToAll) return Values(sender, my_block + within);
  const int64_t first = operation_ == OperationKind::kReduceScatter ? my_block + begin : begin;
  std::vector<const void*> inputs;
  for (int rank = 0; rank < group_.size(); ++rank) inputs.push_back(Values(rank, first));
  void* const outputs[] = {scratch};
  Reduce(reduce_op_, dtype_, inputs, outputs, num_elements);
  return scratch;
}

int64_t Trial::CountWrong() const {
  const int64_t element_size = ops::SizeOf(dtype_);
  const bool has_blocks =
      operation_ == OperationKind::kAllGather || operation_ == OperationKind::kAllToAll;
  const int64_t block = has_blocks ? per_rank_ : output_.num_elements;
  std::vector<std::byte> scratch(kChunk * element_size);
  int64_t num_wrong = 0;
  for (int64_t block_begin = 0; block_begin < output_.num_elements; block_begin += block) {
    ForEachChunk(block, [&](int64_t begin, int64_t num_elements) {
      const int64_t first = block_begin + begin;
      num_wrong +=
          CountDifferent(output_.bytes() + first * element_size,
                         Expected(first, num_elements, scratch.data()), num_elements, element_size);
    });
  }
  return num_wrong;
}

}  // namespace ddp::bench
