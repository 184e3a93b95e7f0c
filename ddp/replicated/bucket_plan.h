// Which gradient lies in which bucket, and where: a pure function of the parameters, so that all
// ranks come to the same plan.
//
// Buckets are filled in reverse order of registration, which is about the order in which backward
// completes gradients, and travel in the order in which they become full. Elements of different
// types have buckets of their own.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ddp {

struct BucketLimits {
  // A bucket is closed when the next gradient would make it larger; one larger gradient has a
  // bucket of its own.
  int64_t bytes = 25 << 20;
  // The same for the first bucket of each type: small, so that it leaves early.
  int64_t first_bytes = 1 << 20;
};

struct BucketPlan {
  struct Slot {
    int parameter;  // index into the list of parameters
    int64_t offset_bytes;
  };

  ops::DType dtype = ops::DType::kFloat32;
  ops::Device device = ops::Device::Cpu();
  int64_t num_bytes = 0;  // up to the end of the last gradient
  std::vector<Slot> slots;
};

// Each gradient begins on a cache line, for kernels that load vectors.
inline constexpr int64_t kGradientAlignment = 64;

// Throws std::invalid_argument for limits below 1.
std::vector<BucketPlan> PlanBuckets(std::span<const ops::NamedTensor> parameters,
                                    const BucketLimits& limits);

}  // namespace ddp
