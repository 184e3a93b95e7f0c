// What the saver saves (saver.cc).
#pragma once

#include <cstdint>

namespace ddp {

// In each group of tensors.
inline constexpr int64_t kSaverElements = 200'000;

}  // namespace ddp
