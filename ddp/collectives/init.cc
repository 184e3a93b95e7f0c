#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "ddp/collectives/gloo/gloo_group.h"
#include "ddp/collectives/local_group.h"
#include "ddp/collectives/process_group.h"

namespace ddp {
namespace {

using MakeGroup = std::unique_ptr<ProcessGroup> (*)(const ProcessGroupOptions& options);

struct Backend {
  std::string_view name;
  ops::Device::Kind device;  // whose memory it reaches
  MakeGroup make;            // null: not in this version
};

constexpr ops::Device::Kind kCpu = ops::Device::Kind::kCpu;
constexpr ops::Device::Kind kCuda = ops::Device::Kind::kCuda;

constexpr Backend kBackends[] = {
    {"gloo", kCpu, MakeGlooGroup}, {"mpi", kCpu, nullptr},  {"shm", kCpu, nullptr},
    {"nccl", kCuda, nullptr},      {"auto", kCpu, nullptr},
};

std::string ListNames() {
  std::string names;
  for (const Backend& backend : kBackends) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", backend.name);
  }
  return names;
}

// Returns the backend asked for, or says what would work in its place.
const Backend& FindBackend(const ProcessGroupOptions& options) {
  const auto found = std::ranges::find(kBackends, options.backend, &Backend::name);
  if (found == std::end(kBackends)) {
    throw std::invalid_argument(
        fmt::format("unknown backend '{}'; known are {}", options.backend, ListNames()));
  }
  if (found->device != options.device.kind) {
    throw std::invalid_argument(
        found->device == kCuda
            ? fmt::format("backend '{}' needs cuda tensors, these are on {}; 'gloo' would work",
                          found->name, options.device.ToString())
            : fmt::format("backend '{}' reaches CPU tensors only, these are on {}; with device "
                          "'cpu' it would work",
                          found->name, options.device.ToString()));
  }
  if (found->make == nullptr) {
    throw std::invalid_argument(fmt::format(
        "backend '{}' isn't in this version yet; 'gloo' with CPU tensors would work", found->name));
  }
  return *found;
}

}  // namespace

std::unique_ptr<ProcessGroup> InitProcessGroup(const ProcessGroupOptions& options) {
  const Backend& backend = FindBackend(options);
  if (options.world_size < 1) {
    throw std::invalid_argument(
        fmt::format("a group needs at least one rank, got world_size {}", options.world_size));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    throw std::invalid_argument(fmt::format("rank {} is not in a world of {}: ranks are 0 to {}",
                                            options.rank, options.world_size,
                                            options.world_size - 1));
  }
  if (options.world_size == 1) return std::make_unique<LocalGroup>(backend.name);
  if (options.store == nullptr) {
    throw std::invalid_argument(fmt::format(
        "{} ranks need a store to meet, such as a TcpStore; got none", options.world_size));
  }
  return backend.make(options);
}

}  // namespace ddp
