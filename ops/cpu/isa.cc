#include "ops/cpu/isa.h"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace ops::cpu {
namespace {

constexpr Isa kAllIsas[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512};

size_t CountSupported() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 1;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? 3 : 2;
}

void CheckSupported(Isa isa) {
  if (isa > SupportedIsas().back()) {
    throw std::invalid_argument(fmt::format("this CPU can't run {} kernels: the best it has is {}",
                                            Name(isa), Name(SupportedIsas().back())));
  }
}

Isa IsaOfProcess() {
  const char* const name = std::getenv("DDP_CPU_ISA");
  return name == nullptr ? SupportedIsas().back() : ParseIsa(name);
}

}  // namespace

std::string_view Name(Isa isa) {
  constexpr std::string_view kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

std::span<const Isa> SupportedIsas() {
  static const size_t count = CountSupported();
  return std::span(kAllIsas).first(count);
}

Isa ParseIsa(std::string_view name) {
  for (const Isa isa : kAllIsas) {
    if (name != Name(isa)) continue;
    CheckSupported(isa);
    return isa;
  }
  throw std::invalid_argument(
      fmt::format("DDP_CPU_ISA: expected baseline, avx2 or avx512, got '{}'", name));
}

ScopedIsa::ScopedIsa(Isa isa) {
  CheckSupported(isa);
  previous_ = std::exchange(internal::isa_of_this_thread, static_cast<int>(isa));
}

ScopedIsa::~ScopedIsa() { internal::isa_of_this_thread = previous_; }

namespace internal {

constinit thread_local int isa_of_this_thread = -1;

Isa ChooseIsa() {
  static const Isa isa = IsaOfProcess();
  isa_of_this_thread = static_cast<int>(isa);
  return isa;
}

}  // namespace internal
}  // namespace ops::cpu
