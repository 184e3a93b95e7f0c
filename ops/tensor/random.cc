#include "ops/tensor/random.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace ops {
namespace {

// draw.operator()<T>() gives the values of a tensor with elements of type T.
template <class Draw>
void FillWith(const Tensor& tensor, Draw draw) {
  if (!tensor.defined() || !IsFloating(tensor.dtype())) {
    throw std::invalid_argument(
        fmt::format("random values need a floating point tensor, got {}", tensor.Describe()));
  }
  Dispatch(tensor.dtype(), [&]<class T>() {
    for (T& element : tensor.elements<T>()) {
      const double value = draw.template operator()<T>();
      if constexpr (sizeof(T) == 2) {
        element = T(static_cast<float>(value));
      } else {
        element = static_cast<T>(value);
      }
    }
  });
}

// Bits of a significand, the implicit one too.
template <class T>
constexpr int kSignificandBits = std::numeric_limits<T>::digits;
template <>
constexpr int kSignificandBits<BFloat16> = 8;
template <>
constexpr int kSignificandBits<Float16> = 11;

}  // namespace

std::array<uint32_t, 4> Philox(uint64_t seed, uint64_t stream, uint64_t position) {
  std::array<uint32_t, 4> counter = {
      static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
      static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  uint32_t key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {
        static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
        static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

Generator& Generator::ForThisThread() {
  thread_local Generator generator;
  return generator;
}

Tensor Generator::State() const {
  return Tensor::FromVector<int64_t>(
      {static_cast<int64_t>(seed_), static_cast<int64_t>(stream_), static_cast<int64_t>(position_),
       used_, has_spare_normal_, std::bit_cast<int64_t>(spare_normal_)},
      {6});
}

Generator Generator::FromState(const Tensor& state) {
  if (!state.defined() || state.dtype() != DType::kInt64 || state.shape() != Shape{6}) {
    throw std::invalid_argument(fmt::format("the state of a generator is {}, expected int64[6]",
                                            state.defined() ? state.Describe() : "undefined"));
  }
  const int64_t* const values = state.data<int64_t>();
  if (values[3] < 0 || values[3] > 4 || (values[2] == 0 && values[3] < 4)) {
    throw std::invalid_argument(
        fmt::format("no generator has given out {} words of block {}", values[3], values[2]));
  }
  Generator generator(values[0], values[1]);
  generator.position_ = values[2];
  generator.used_ = static_cast<int>(values[3]);
  if (generator.used_ < 4) generator.block_ = Philox(values[0], values[1], values[2] - 1);
  generator.has_spare_normal_ = values[4] != 0;
  generator.spare_normal_ = std::bit_cast<double>(values[5]);
  return generator;
}

uint32_t Generator::NextUint32() {
  if (used_ == 4) {
    block_ = Philox(seed_, stream_, position_++);
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Generator::NextUint64() {
  const uint64_t low = NextUint32();
  return low | uint64_t{NextUint32()} << 32;
}

double Generator::Uniform() { return static_cast<double>(NextUint64() >> 11) * 0x1p-53; }

double Generator::Normal() {
  if (has_spare_normal_) {
    has_spare_normal_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2 * std::log(1 - Uniform()));  // 1 - u is never 0
  const double angle = 2 * std::numbers::pi * Uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_normal_ = true;
  return radius * std::cos(angle);
}

uint64_t Generator::Below(uint64_t bound) {
  using uint128 = unsigned __int128;
  uint128 product = uint128{NextUint64()} * bound;
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t threshold = -bound % bound;
    while (static_cast<uint64_t>(product) < threshold) product = uint128{NextUint64()} * bound;
  }
  return static_cast<uint64_t>(product >> 64);
}

std::vector<int64_t> Generator::Permutation(int64_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[Below(i + 1)]);
  return order;
}

void Generator::FillUniform(const Tensor& tensor, double low, double high) {
  // No more bits than T has, so that what is drawn below 1 isn't rounded to 1.
  FillWith(tensor, [&]<class T>() {
    constexpr int kSpare = 53 - std::clamp(kSignificandBits<T>, 1, 53);
    const uint64_t bits = NextUint64() >> 11 >> kSpare << kSpare;
    return low + (high - low) * (static_cast<double>(bits) * 0x1p-53);
  });
}

void Generator::FillNormal(const Tensor& tensor, double mean, double standard_deviation) {
  FillWith(tensor, [&]<class T>() { return mean + standard_deviation * Normal(); });
}

}  // namespace ops
