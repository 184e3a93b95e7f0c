// The instruction sets that kernels are compiled for, and which of them is used.
//
// A family of kernels is one source, X_kernels.cc, of plain loops. BUILD compiles it once for each
// set, in a namespace of that name, and each copy offers one table of function pointers. A kernel's
// caller picks the table on the thread where the operation starts:
//
//   ForIsa(baseline::kReduceKernels, avx2::kReduceKernels, avx512::kReduceKernels)
//
// (Function pointers and not GCC's target_clones: ifunc resolvers crash under ThreadSanitizer.)
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ops::cpu {

enum class Isa : uint8_t {
  kBaseline,  // every x86-64: SSE2
  kAvx2,      // AVX2 and FMA: Haswell, Zen and later
  kAvx512,    // AVX-512 F, BW, DQ and VL: Skylake-SP, Zen 4 and later
};

std::string_view Name(Isa isa);  // "baseline", "avx2", "avx512"

// The sets that this CPU and its operating system can run, ascending.
std::span<const Isa> SupportedIsas();

// Throws std::invalid_argument for a name that isn't known or that this CPU can't run.
Isa ParseIsa(std::string_view name);

// The set that kernels called by this thread use: the scope's, else the one that the environment
// variable DDP_CPU_ISA names, else the best supported one. Throws as ParseIsa does.
inline Isa CurrentIsa();

// Makes kernels that this thread calls use `isa` until the scope ends: for tests and benchmarks.
// Throws std::invalid_argument when this CPU can't run it.
class ScopedIsa {
 public:
  explicit ScopedIsa(Isa isa);
  ~ScopedIsa();
  ScopedIsa(const ScopedIsa&) = delete;
  ScopedIsa& operator=(const ScopedIsa&) = delete;

 private:
  int previous_;
};

// The table of the current set.
template <class Table>
const Table& ForIsa(const Table& baseline, const Table& avx2, const Table& avx512) {
  switch (CurrentIsa()) {
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx2:
      return avx2;
    case Isa::kBaseline:
      break;
  }
  return baseline;
}

namespace internal {
extern constinit thread_local int isa_of_this_thread;  // -1: not chosen yet
Isa ChooseIsa();
}  // namespace internal

inline Isa CurrentIsa() {
  const int isa = internal::isa_of_this_thread;
  return isa >= 0 ? static_cast<Isa>(isa) : internal::ChooseIsa();
}

}  // namespace ops::cpu
