#include "ddp/replicated/hooks/block_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ddp {
namespace {

constexpr float kLargest = 127;
constexpr int kZero = 128;     // the code of 0
constexpr int kNotFinite = 0;  // the code of NaN and infinity; 1 to 255 are -127 to 127

float ScaleOf(std::span<const float> block) {
  float largest = 0;
  for (const float value : block) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest / kLargest;
}

// `divisor` is the scale, or 1 where that is 0.
uint8_t CodeOf(float value, float divisor) {
  if (!std::isfinite(value)) return kNotFinite;
  const float multiple = std::clamp(value / divisor, -kLargest, kLargest);
  return static_cast<uint8_t>(static_cast<int>(multiple + kZero + 0.5f));
}

float ValueOf(uint8_t code, float scale) {
  return code == kNotFinite ? std::numeric_limits<float>::quiet_NaN()
                            : static_cast<float>(code - kZero) * scale;
}

// Calls f(i, code, scale) for each of n elements.
template <class F>
void ForEachCode(const uint8_t* encoded, size_t n, F f) {
  const uint8_t* const codes = encoded + NumBlocks(n) * sizeof(float);
  for (size_t begin = 0; begin < n; begin += kBlockElements) {
    float scale;
    std::memcpy(&scale, encoded + begin / kBlockElements * sizeof(float), sizeof(scale));
    const size_t end = std::min<size_t>(begin + kBlockElements, n);
    for (size_t i = begin; i < end; ++i) f(i, codes[i], scale);
  }
}

}  // namespace

void Encode(std::span<const float> values, uint8_t* encoded, ErrorFeedback& feedback,
            size_t first) {
  uint8_t* const codes = encoded + NumBlocks(values.size()) * sizeof(float);
  for (size_t begin = 0; begin < values.size(); begin += kBlockElements) {
    const size_t end = std::min<size_t>(begin + kBlockElements, values.size());
    const float scale = ScaleOf(values.subspan(begin, end - begin));
    std::memcpy(encoded + begin / kBlockElements * sizeof(float), &scale, sizeof(scale));
    const float divisor = scale > 0 ? scale : 1;
    for (size_t i = begin; i < end; ++i) {
      codes[i] = CodeOf(values[i], divisor);
      feedback.Note(first + i, values[i], ValueOf(codes[i], scale));
    }
  }
}

void Decode(const uint8_t* encoded, std::span<float> values) {
  ForEachCode(encoded, values.size(),
              [&](size_t i, uint8_t code, float scale) { values[i] = ValueOf(code, scale); });
}

void DecodeAndAdd(const uint8_t* encoded, std::span<float> values) {
  ForEachCode(encoded, values.size(),
              [&](size_t i, uint8_t code, float scale) { values[i] += ValueOf(code, scale); });
}

}  // namespace ddp
