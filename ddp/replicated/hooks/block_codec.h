// Numbers in 8 bits: blocks of 256 that share a scale. See quantize.h.
#pragma once

#include <cstdint>
#include <span>

#include "ddp/replicated/hooks/error_feedback.h"

namespace ddp {

inline constexpr int64_t kBlockElements = 256;

constexpr int64_t NumBlocks(int64_t num_elements) {
  return (num_elements + kBlockElements - 1) / kBlockElements;
}

// A float32 scale for each block, then a byte for each element.
constexpr int64_t EncodedBytes(int64_t num_elements) {
  return NumBlocks(num_elements) * static_cast<int64_t>(sizeof(float)) + num_elements;
}

// `encoded` has EncodedBytes(values.size()) bytes; `feedback` notes what they don't say, from its
// element `first` on.
void Encode(std::span<const float> values, uint8_t* encoded, ErrorFeedback& feedback,
            size_t first = 0);

// The inverse. What wasn't finite is NaN.
void Decode(const uint8_t* encoded, std::span<float> values);
// values += what is encoded.
void DecodeAndAdd(const uint8_t* encoded, std::span<float> values);

}  // namespace ddp
