#include <string>

#include "third_party/cuda/device_count.h"

namespace third_party::cuda {

int DeviceCount(std::string* why_none) {
  if (why_none != nullptr) *why_none = "built without CUDA (DDP_CUDA=0 or no toolkit found)";
  return 0;
}

}  // namespace third_party::cuda
