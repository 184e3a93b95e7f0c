#include "launch/topology/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace launch {

std::optional<int> CountVisibleGpus(const ddp::Environment& environment) {
  const std::optional<std::string> visible = environment("CUDA_VISIBLE_DEVICES");
  if (!visible) return std::nullopt;
  // CUDA takes what isn't a device for the end of the list.
  if (visible->empty() || *visible == "-1" || *visible == "NoDevFiles") return 0;
  return static_cast<int>(std::ranges::count(*visible, ',')) + 1;
}

int ChooseGpu(int local_rank, int local_world_size, int num_visible) {
  if (num_visible == 1) return 0;
  if (num_visible < local_world_size) {
    throw std::invalid_argument(
        fmt::format("{} ranks of this machine see {} GPUs: expected 1 or {}", local_world_size,
                    num_visible, local_world_size));
  }
  return local_rank;
}

}  // namespace launch
