#include "ddp/data/pixels.h"

#include <array>

namespace ddp {
namespace {

constexpr std::array<float, 256> kNormalized = [] {
  std::array<float, 256> table{};
  for (int i = 0; i < 256; ++i) table[i] = (i / 255.0f - 0.1307f) / 0.3081f;
  return table;
}();

}  // namespace

void NormalizePixels(std::span<const uint8_t> pixels, float* normalized) {
  for (uint8_t pixel : pixels) *normalized++ = kNormalized[pixel];
}

}  // namespace ddp
