#include "ops/cpu/activation.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "ops/cpu/activation_kernels.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

constexpr int64_t kChunk = 16384;  // elements that are worth a hand-over to another thread

const ActivationKernels& Kernels(DType dtype) {
  if (!IsFloating(dtype)) {
    throw std::invalid_argument(
        fmt::format("activation: expected a floating point dtype, got {}", Name(dtype)));
  }
  const auto& kernels =
      ForIsa(baseline::kActivationKernels, avx2::kActivationKernels, avx512::kActivationKernels);
  return kernels[static_cast<int>(dtype)];
}

// Calls body(offset in bytes, number of elements) for chunks of a tensor like `y`.
template <class Body>
void ForChunks(const Tensor& y, Body body) {
  const int64_t size = SizeOf(y.dtype());
  ParallelFor(y.num_elements(), kChunk,
              [&](int64_t begin, int64_t end) { body(begin * size, end - begin); });
}

}  // namespace

void Activate(Activation f, const Tensor& x, const Tensor& y, double parameter) {
  const auto kernel = Kernels(y.dtype()).forward[static_cast<int>(f)];
  ForChunks(y, [&](int64_t offset, int64_t n) {
    kernel(x.raw_data() + offset, parameter, y.raw_data() + offset, n);
  });
}

void ActivateBackward(Activation f, const Tensor& kept, const Tensor& dy, const Tensor& dx,
                      bool accumulate, double parameter) {
  const auto kernel = Kernels(dx.dtype()).backward[static_cast<int>(f)];
  ForChunks(dx, [&](int64_t offset, int64_t n) {
    kernel(kept.raw_data() + offset, dy.raw_data() + offset, parameter, dx.raw_data() + offset, n,
           accumulate);
  });
}

void AddRelu(const Tensor& a, const Tensor& b, const Tensor& y) {
  const auto kernel = Kernels(y.dtype()).add_relu;
  ForChunks(y, [&](int64_t offset, int64_t n) {
    kernel(a.raw_data() + offset, b.raw_data() + offset, y.raw_data() + offset, n);
  });
}

void SwiGlu(const Tensor& gate, const Tensor& up, const Tensor& y) {
  SwiGluUpBackward(gate, up, y, /*accumulate=*/false);
}

void SwiGluGateBackward(const Tensor& gate, const Tensor& up, const Tensor& dy, const Tensor& dgate,
                        bool accumulate) {
  const auto kernel = Kernels(dgate.dtype()).swiglu_gate;
  ForChunks(dgate, [&](int64_t offset, int64_t n) {
    kernel(gate.raw_data() + offset, up.raw_data() + offset, dy.raw_data() + offset,
           dgate.raw_data() + offset, n, accumulate);
  });
}

void SwiGluUpBackward(const Tensor& gate, const Tensor& dy, const Tensor& dup, bool accumulate) {
  const auto kernel = Kernels(dup.dtype()).swiglu;
  ForChunks(dup, [&](int64_t offset, int64_t n) {
    kernel(gate.raw_data() + offset, dy.raw_data() + offset, dup.raw_data() + offset, n,
           accumulate);
  });
}

void Dropout(const Tensor& x, const DropoutMask& mask, const Tensor& y, bool accumulate) {
  const auto kernel = Kernels(y.dtype()).dropout;
  const int64_t size = SizeOf(y.dtype());
  const auto threshold = static_cast<uint64_t>(std::ldexp(mask.probability, 32));
  ForChunks(y, [&](int64_t offset, int64_t n) {
    const DropoutDraw draw = {
        .seed = mask.seed,
        .step = mask.step,
        .position = mask.first_position + static_cast<uint64_t>(offset / size),
        .threshold = threshold,
        .factor = 1 / (1 - mask.probability)};
    kernel(x.raw_data() + offset, draw, y.raw_data() + offset, n, accumulate);
  });
}

}  // namespace ops::cpu
