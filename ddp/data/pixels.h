// Grey pixels as models see them: MNIST's mean and standard deviation taken out.
#pragma once

#include <cstdint>
#include <span>

namespace ddp {

// normalized[i] = (pixels[i] / 255 - 0.1307) / 0.3081, for as many as there are pixels.
void NormalizePixels(std::span<const uint8_t> pixels, float* normalized);

}  // namespace ddp
