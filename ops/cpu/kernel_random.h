// Random numbers for kernel sources: those of ops/tensor/random.h, many at a time. For
// X_kernels.cc only, see kernel_element.h.
#pragma once

#include <cstdint>

#include "ops/cpu/kernel_element.h"

namespace ops::cpu::OPS_CPU_ISA {
namespace {

constexpr int64_t kRandomWords = 256;

// Fills `words` with Philox(seed, stream, position) for kRandomWords / 4 successive positions.
inline void DrawWords(uint64_t seed, uint64_t stream, uint64_t first_position,
                      uint32_t (&words)[kRandomWords]) {
  ForEach(kRandomWords / 4, [&, seed, stream, first_position](int64_t i) {
    const uint64_t position = first_position + static_cast<uint64_t>(i);
    auto c0 = static_cast<uint32_t>(position), c1 = static_cast<uint32_t>(position >> 32);
    auto c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
    auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53} * c0;
      const uint64_t product1 = uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
      c1 = static_cast<uint32_t>(product1);
      c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
      c3 = static_cast<uint32_t>(product0);
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    words[4 * i] = c0;
    words[4 * i + 1] = c1;
    words[4 * i + 2] = c2;
    words[4 * i + 3] = c3;
  });
}

}  // namespace
}  // namespace ops::cpu::OPS_CPU_ISA
