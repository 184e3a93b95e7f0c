#include "ops/cpu/rotary.h"

#include <cmath>
#include <cstddef>

#include "ops/cpu/isa.h"
#include "ops/cpu/rotary_kernels.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

// Positions of a chunk: sines and cosines of the first are calculated, those of the others by
// turning on, which costs some units in float64's last place.
constexpr int64_t kPositions = 16;

// The directions of one position, turned on position by position.
class Angles {
 public:
  Angles(const RotaryParameters& parameters, int64_t half, int64_t position, bool inverse)
      : half_(half), table_(Tensor::Empty({4, half}, {.dtype = DType::kFloat64})) {
    const double direction = inverse ? -1 : 1;
    for (int64_t i = 0; i < half; ++i) {
      const double exponent = static_cast<double>(i) / static_cast<double>(half);
      const double step = direction * std::pow(parameters.base, -exponent);
      const double start = step * static_cast<double>(parameters.first_position + position);
      cosines()[i] = std::cos(start);
      sines()[i] = std::sin(start);
      step_cosines()[i] = std::cos(step);
      step_sines()[i] = std::sin(step);
    }
  }

  double* cosines() const { return table_.data<double>(); }
  double* sines() const { return cosines() + half_; }

  void TurnOn() const {
    for (int64_t i = 0; i < half_; ++i) {
      const double cosine = cosines()[i], sine = sines()[i];
      cosines()[i] = cosine * step_cosines()[i] - sine * step_sines()[i];
      sines()[i] = sine * step_cosines()[i] + cosine * step_sines()[i];
    }
  }

 private:
  double* step_cosines() const { return cosines() + 2 * half_; }
  double* step_sines() const { return cosines() + 3 * half_; }

  int64_t half_;
  Tensor table_;
};

}  // namespace

void RotaryEmbedding(const Tensor& qkv, const Tensor& y, const RotaryParameters& parameters,
                     bool inverse, bool accumulate) {
  if (qkv.num_elements() == 0) return;
  const auto& kernels =
      ForIsa(baseline::kRotaryKernels, avx2::kRotaryKernels, avx512::kRotaryKernels);
  const auto rotate = kernels[static_cast<int>(qkv.dtype())].rotate;
  const int64_t batch = qkv.dim(0), time = qkv.dim(1), width = qkv.dim(2) / 3;
  const int64_t half = width / parameters.num_heads / 2;
  const int64_t row_bytes = qkv.dim(2) * SizeOf(qkv.dtype());
  ParallelFor(time, kPositions, [&](int64_t begin, int64_t end) {
    const Angles angles(parameters, half, begin, inverse);
    for (int64_t t = begin; t < end; ++t, angles.TurnOn()) {
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t offset = (b * time + t) * row_bytes;
        rotate(
            {qkv.raw_data() + offset, y.raw_data() + offset, 2 * parameters.num_heads, half, width},
            angles.cosines(), angles.sines(), accumulate);
      }
    }
  });
}

}  // namespace ops::cpu
