#include "ddp/collectives/arguments.h"

#include <fmt/format.h>

#include <stdexcept>

namespace ddp {

std::string Describe(const Buffer& buffer) {
  std::string text = fmt::format("{}[{}]", Name(buffer.dtype), buffer.num_elements);
  if (!buffer.device.is_cpu()) text += " on " + buffer.device.ToString();
  return text;
}

void CheckCpuBuffer(std::string_view operation, const Buffer& buffer) {
  if (!buffer.device.is_cpu()) {
    throw std::invalid_argument(
        fmt::format("{}: this group reaches CPU memory only, got {}", operation, Describe(buffer)));
  }
  if (buffer.num_elements < 0) {
    throw std::invalid_argument(
        fmt::format("{}: a buffer with {} elements", operation, buffer.num_elements));
  }
  if (buffer.data == nullptr && buffer.num_elements > 0) {
    throw std::invalid_argument(
        fmt::format("{}: a null pointer for {}", operation, Describe(buffer)));
  }
}

void CheckAllGatherBuffers(const Buffer& input, const Buffer& output, int size) {
  CheckCpuBuffer("all_gather", input);
  CheckCpuBuffer("all_gather", output);
  if (output.dtype != input.dtype || output.num_elements != size * input.num_elements) {
    throw std::invalid_argument(fmt::format(
        "all_gather: {} ranks with {} each need an output {}[{}], got {}", size, Describe(input),
        Name(input.dtype), size * input.num_elements, Describe(output)));
  }
}

void CheckRoot(std::string_view operation, int root, int size) {
  if (root < 0 || root >= size) {
    throw std::invalid_argument(
        fmt::format("{}: root {} is not one of the ranks 0 to {}", operation, root, size - 1));
  }
}

}  // namespace ddp
