#include "ops/tensor/device.h"

#include <fmt/format.h>

#include <charconv>
#include <stdexcept>

#include "third_party/cuda/device_count.h"

namespace ops {

Device Device::Parse(std::string_view text) {
  if (text == "cpu") return Cpu();
  if (text == "cuda") return Cuda();
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    int index = -1;
    const char* end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + kPrefix.size(), end, index);
    if (error == std::errc() && stop == end && index >= 0) return Cuda(index);
  }
  throw std::invalid_argument(
      fmt::format("unknown device '{}': expected cpu, cuda or cuda:N with N from 0", text));
}

std::string Device::ToString() const { return is_cpu() ? "cpu" : fmt::format("cuda:{}", index); }

void CheckAvailable(const Device& device) {
  if (device.is_cpu()) return;
  std::string why_none;
  const int count = third_party::cuda::DeviceCount(&why_none);
  if (count == 0) {
    throw std::invalid_argument(
        fmt::format("device {} can't be used: {}; 'cpu' would work", device.ToString(), why_none));
  }
  if (device.index < 0 || device.index >= count) {
    throw std::invalid_argument(
        fmt::format("device {} doesn't exist: this machine has cuda:0{}", device.ToString(),
                    count > 1 ? fmt::format(" to cuda:{}", count - 1) : ""));
  }
}

}  // namespace ops
