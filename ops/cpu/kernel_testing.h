// What the kernels' tests share: every instruction set of this CPU, lengths that end inside a
// vector, tensors that start off a vector's alignment, several numbers of threads.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ops/cpu/isa.h"
#include "ops/cpu/thread_pool.h"
#include "ops/tensor/random.h"
#include "ops/tensor/tensor.h"

namespace ops::cpu {

inline constexpr int64_t kLengths[] = {0, 1, 3, 15, 16, 17, 64, 255, 1000};
inline constexpr DType kFloatingDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16,
                                            DType::kFloat16};

// Runs `f` with the kernels of each instruction set in turn.
template <class F>
void ForEachIsa(F f) {
  for (const Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)));
    const ScopedIsa use(isa);
    f();
  }
}

// Not initialised, and one element off the alignment of its memory.
inline Tensor Misaligned(const Shape& shape, DType dtype) {
  const int64_t n = shape.num_elements();
  return Tensor::Empty({n + 1}, {.dtype = dtype}).Slice(1, n + 1).View(shape);
}

// Standard normal times `scale`, for integers rounded; misaligned.
inline Tensor RandomTensor(const Shape& shape, DType dtype, uint64_t seed, double scale = 1) {
  Generator generator(seed);
  std::vector<double> values(shape.num_elements());
  for (double& value : values) value = scale * generator.Normal();
  const Tensor tensor = Misaligned(shape, dtype);
  tensor.CopyFrom(Tensor::FromVector(values, shape));
  return tensor;
}

inline std::string BytesOf(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.raw_data()),
          static_cast<size_t>(tensor.num_bytes())};
}

// Runs `f`, which returns a tensor, on 1, 2 and 3 threads: the bits must be equal.
template <class F>
void ExpectSameBitsOnThreads(F f) {
  const std::string alone = BytesOf(f());
  for (const int num_threads : {1, 2, 3}) {
    ThreadPool pool(num_threads);
    const ScopedThreadPool use(&pool);
    EXPECT_TRUE(BytesOf(f()) == alone) << num_threads << " threads";
  }
}

}  // namespace ops::cpu
