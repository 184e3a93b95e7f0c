#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "ddp/collectives/auto/auto_backend.h"
#include "ddp/collectives/backend_group.h"
#include "ddp/collectives/gloo/gloo_backend.h"
#include "ddp/collectives/local_backend.h"
#include "ddp/collectives/meeting.h"
#include "ddp/collectives/mpi/mpi_backend.h"
#include "ddp/collectives/process_group.h"
#include "ddp/collectives/shm/shm_backend.h"

namespace ddp {
namespace {

using MakeBackend = std::unique_ptr<Backend> (*)(const Meeting& meeting);

struct Entry {
  std::string_view name;
  ops::Device::Kind device;  // whose memory it reaches
  MakeBackend make;          // null: not in this version
};

constexpr ops::Device::Kind kCpu = ops::Device::Kind::kCpu;
constexpr ops::Device::Kind kCuda = ops::Device::Kind::kCuda;

constexpr Entry kBackends[] = {
    {"auto", kCpu, MakeAutoBackend}, {"shm", kCpu, MakeShmBackend}, {"gloo", kCpu, MakeGlooBackend},
    {"mpi", kCpu, MakeMpiBackend},   {"nccl", kCuda, nullptr},
};

std::string ListNames() {
  std::string names;
  for (const Entry& backend : kBackends) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", backend.name);
  }
  return names;
}

// Returns the backend asked for, or says what would work in its place.
const Entry& FindBackend(const ProcessGroupOptions& options) {
  const auto found = std::ranges::find(kBackends, options.backend, &Entry::name);
  if (found == std::end(kBackends)) {
    throw std::invalid_argument(
        fmt::format("unknown backend '{}'; known are {}", options.backend, ListNames()));
  }
  if (found->device != options.device.kind) {
    throw std::invalid_argument(
        found->device == kCuda
            ? fmt::format("backend '{}' needs cuda tensors, these are on {}; 'auto' would work",
                          found->name, options.device.ToString())
            : fmt::format("backend '{}' reaches CPU tensors only, these are on {}; with device "
                          "'cpu' it would work",
                          found->name, options.device.ToString()));
  }
  if (found->make == nullptr) {
    throw std::invalid_argument(fmt::format(
        "backend '{}' isn't in this version yet; 'auto' with CPU tensors would work", found->name));
  }
  return *found;
}

}  // namespace

std::unique_ptr<ProcessGroup> InitProcessGroup(const ProcessGroupOptions& options) {
  const Entry& backend = FindBackend(options);
  if (options.world_size < 1) {
    throw std::invalid_argument(
        fmt::format("a group needs at least one rank, got world_size {}", options.world_size));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    throw std::invalid_argument(fmt::format("rank {} is not in a world of {}: ranks are 0 to {}",
                                            options.rank, options.world_size,
                                            options.world_size - 1));
  }
  if (options.world_size > 1 && options.store == nullptr) {
    throw std::invalid_argument(fmt::format(
        "{} ranks need a store to meet, such as a TcpStore; got none", options.world_size));
  }
  Meeting meeting;
  std::unique_ptr<Backend> connected;
  const std::string context = fmt::format("rank {}: joining the group failed", options.rank);
  try {
    meeting = MeetMembers(options);
    connected = options.world_size == 1 ? MakeLocalBackend() : backend.make(meeting);
  } catch (const TimeoutError& error) {
    throw TimeoutError(fmt::format("{}: {}", context, error.what()));
  } catch (const MismatchError& error) {
    throw MismatchError(fmt::format("{}: {}", context, error.what()));
  } catch (const PeerLostError& error) {
    throw PeerLostError(fmt::format("{}: {}", context, error.what()), error.peer());
  } catch (const CollectiveError& error) {
    throw CollectiveError(fmt::format("{}: {}", context, error.what()));
  }
  return std::make_unique<BackendGroup>(std::move(meeting), backend.name, std::move(connected),
                                        InitProcessGroup);
}

}  // namespace ddp
