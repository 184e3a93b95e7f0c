// Sums over threads in an order that depends on the count alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {

// The sum of body(begin, end) over ranges that make up [0, count), each of them at least `chunk`
// long but the last.
inline double ParallelSum(int64_t count, int64_t chunk,
                          absl::FunctionRef<double(int64_t begin, int64_t end)> body) {
  if (count <= chunk) return body(0, count);
  constexpr int64_t kMaxChunks = 64;
  const int64_t size = std::max(chunk, (count + kMaxChunks - 1) / kMaxChunks);
  std::array<double, kMaxChunks> partial{};
  ParallelFor(count, size,
              [&](int64_t begin, int64_t end) { partial[begin / size] = body(begin, end); });
  double sum = 0;
  for (const double part : partial) sum += part;
  return sum;
}

}  // namespace ops::cpu
