#include "ddp/collectives/reduce.h"

#include <fmt/format.h>

#include <iterator>
#include <stdexcept>

#include "ddp/collectives/reduce_kernels.h"
#include "ops/cpu/isa.h"

namespace ddp {
namespace {

using ops::DType;

static_assert(kNumReduceOps == static_cast<int>(ReduceOp::kPremultipliedSum) + 1);
static_assert(kNumReduceDTypes == std::size(ops::kAllDTypes));

const ReduceKernelTable& Table() {
  return ops::cpu::ForIsa(baseline::kReduceKernels, avx2::kReduceKernels, avx512::kReduceKernels);
}

const ReduceKernels& KernelsOf(ReduceOp op, ops::DType dtype) {
  const ReduceKernels& kernels = Table().reduce[static_cast<int>(op)][static_cast<int>(dtype)];
  if (kernels.reduce == nullptr) {
    throw std::invalid_argument(fmt::format("there is no {} of {}", Name(op), ops::Name(dtype)));
  }
  return kernels;
}

// A sum, before or after which something else is done.
bool IsSum(ReduceOp op) {
  return op == ReduceOp::kSum || op == ReduceOp::kAverage || op == ReduceOp::kPremultipliedSum;
}

}  // namespace

void Reduce(ReduceOp op, ops::DType dtype, std::span<const void* const> inputs,
            std::span<void* const> outputs, int64_t num_elements) {
  KernelsOf(op, dtype).reduce(inputs.data(), std::ssize(inputs), outputs.data(),
                              std::ssize(outputs), num_elements);
}

ops::DType AccumulatorOf(ReduceOp op, ops::DType dtype) {
  const bool rounds = IsSum(op) || op == ReduceOp::kProduct;
  if (rounds && (dtype == DType::kBFloat16 || dtype == DType::kFloat16)) return DType::kFloat32;
  const bool divides = op == ReduceOp::kAverage;
  if (divides && (dtype == DType::kInt32 || dtype == DType::kUInt8)) return DType::kFloat64;
  return dtype;
}

int AccumulatorsPerElement(ReduceOp op, ops::DType dtype) {
  return op == ReduceOp::kAverage && dtype == DType::kInt64 ? 2 : 1;
}

void Accumulate(ReduceOp op, ops::DType dtype, std::span<const void* const> inputs,
                void* accumulators, bool go_on, int64_t num_elements) {
  KernelsOf(op, dtype).accumulate(inputs.data(), std::ssize(inputs), accumulators, go_on,
                                  num_elements);
}

void Finish(ReduceOp op, ops::DType dtype, const void* accumulators, int num_ranks, void* output,
            int64_t num_elements) {
  KernelsOf(op, dtype).finish(accumulators, num_ranks, output, num_elements);
}

void Multiply(ops::DType dtype, double factor, const void* input, void* output,
              int64_t num_elements) {
  const MultiplyKernel multiply = Table().multiply[static_cast<int>(dtype)];
  if (multiply == nullptr) {
    throw std::invalid_argument(
        fmt::format("{} isn't multiplied by a factor: only floating point is", ops::Name(dtype)));
  }
  multiply(input, factor, output, num_elements);
}

bool Supports(ReduceOp op, ops::DType dtype) {
  return Table().reduce[static_cast<int>(op)][static_cast<int>(dtype)].reduce != nullptr;
}

}  // namespace ddp
