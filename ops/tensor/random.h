// Random numbers that depend on a seed alone: not on threads, ranks, time or the CPU.
//
//   Generator generator(seed);
//   Tensor noise = Tensor::Randn({64, 784}, generator);
//   Generator for_rank(seed, /*stream=*/rank);   // independent of the other ranks'
//
// The source is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC'11): a function of key (seed) and counter (stream, position), so any position can be had
// directly. A Generator is not safe to share between threads without a lock.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ops {

// Four words that depend on (seed, stream, position) alone.
std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t stream, uint64_t position);

class Generator {
 public:
  explicit Generator(uint64_t seed = 0, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  // The one that layers draw from when they are given none, one a thread, as torch.manual_seed
  // has it: ForThisThread() = Generator(seed) makes what follows on this thread repeatable.
  static Generator& ForThisThread();

  // Where it is, for a checkpoint, int64[6]; and the generator that goes on from there with the
  // same numbers. Throws std::invalid_argument for a tensor that is no such state.
  Tensor State() const;
  static Generator FromState(const Tensor& state);

  uint32_t NextUint32();
  uint64_t NextUint64();
  // Uniform in [0, 1), a multiple of 2^-53.
  double Uniform();
  // Standard normal, by Box and Muller's method.
  double Normal();
  // Uniform in [0, bound), without bias (Lemire's method); `bound` must be positive.
  uint64_t Below(uint64_t bound);
  // 0 .. count-1 in random order (Fisher and Yates).
  std::vector<int64_t> Permutation(int64_t count);

  // Uniform in [low, high), with as many random bits as the dtype has (where neither bound is 0,
  // rounding may give `high`), and normal. Throws std::invalid_argument unless the tensor is
  // floating point.
  void FillUniform(const Tensor& tensor, double low, double high);
  void FillNormal(const Tensor& tensor, double mean, double standard_deviation);

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t position_ = 0;            // of the next block of four words
  std::array<uint32_t, 4> block_{};  // the current one
  int used_ = 4;                     // words of it already given out
  double spare_normal_ = 0;          // Box and Muller make two at a time
  bool has_spare_normal_ = false;
};

}  // namespace ops
