#include "ddp/collectives/mpi/mpi_backend.h"

#include <fmt/format.h>

#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ddp/collectives/messages/message_backend.h"
#include "ddp/collectives/mpi/mpi_transport.h"
#include "ddp/collectives/mpi/runtime.h"

namespace ddp {
namespace {

// Communicators that are made at the same time must not share a tag; MPI allows up to 32767.
constexpr int kNumTags = 32'000;

int TagOf(const std::string& name) {
  return static_cast<int>(std::hash<std::string>()(name) % kNumTags);
}

// The MPI ranks of the group's ranks: rank 0 collects them in the store and hands them out.
std::vector<int> ShareWorldRanks(const Meeting& meeting) {
  Store& store = *meeting.store;
  const auto key_of = [](int rank) { return fmt::format("mpi_rank/{}", rank); };
  store.Set(key_of(meeting.rank()), std::to_string(mpi::WorldRank()), TimeLeft(meeting.deadline));
  if (meeting.rank() == 0) {
    std::string all;
    for (int rank = 0; rank < meeting.size(); ++rank) {
      all += store.Get(key_of(rank), TimeLeft(meeting.deadline)) + " ";
    }
    store.Set("mpi_ranks", all, TimeLeft(meeting.deadline));
  }
  std::istringstream all(store.Get("mpi_ranks", TimeLeft(meeting.deadline)));
  std::vector<int> ranks;
  for (int rank = 0; all >> rank;) ranks.push_back(rank);
  return ranks;
}

// The same on all ranks, as they look at the same list.
void CheckDistinct(const std::vector<int>& world_ranks) {
  for (size_t a = 0; a < world_ranks.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (world_ranks[a] != world_ranks[b]) continue;
      throw std::invalid_argument(fmt::format(
          "backend 'mpi': ranks {} and {} are both MPI rank {} of {}; each rank needs a "
          "process of its own that mpirun or srun started, or backend 'auto'",
          b, a, world_ranks[a], mpi::WorldSize()));
    }
  }
}

}  // namespace

std::unique_ptr<Backend> MakeMpiBackend(const Meeting& meeting) {
  mpi::Start();
  const std::vector<int> world_ranks = ShareWorldRanks(meeting);
  CheckDistinct(world_ranks);
  const MPI_Comm communicator = mpi::MakeCommunicator(world_ranks, TagOf(meeting.options.name));
  return std::make_unique<MessageBackend>(
      std::make_unique<mpi::MpiTransport>(communicator, meeting.rank(), meeting.size()));
}

}  // namespace ddp
