// Where a tensor's memory is: "cpu", "cuda" (the first GPU) or "cuda:1".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ops {

struct Device {
  enum class Kind : uint8_t { kCpu, kCuda };

  Kind kind = Kind::kCpu;
  int index = 0;

  static constexpr Device Cpu() { return {}; }
  static constexpr Device Cuda(int index = 0) { return {Kind::kCuda, index}; }

  // Throws std::invalid_argument that lists the known forms.
  static Device Parse(std::string_view text);

  bool is_cpu() const { return kind == Kind::kCpu; }
  std::string ToString() const;
  friend bool operator==(const Device&, const Device&) = default;
};

// Throws std::invalid_argument when this process can't use `device`, with the reason (built
// without CUDA, no driver, no such index) and what would work. For the CPU it costs nothing.
void CheckAvailable(const Device& device);

}  // namespace ops
