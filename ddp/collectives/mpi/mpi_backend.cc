#include "ddp/collectives/mpi/mpi_backend.h"

#include <fmt/format.h>

#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/collectives/messages/message_backend.h"
#include "ddp/collectives/mpi/mpi_transport.h"
#include "ddp/collectives/mpi/runtime.h"

namespace ddp {
namespace {

// Communicators that are made at the same time must not share a tag; MPI allows up to 32767.
constexpr int kNumTags = 32'000;

// What the group's ranks have to know of each other.
struct Plan {
  uint64_t group_id = 0;
  std::vector<int> world_ranks;  // MPI's, by rank of the group
};

// Rank 0 collects the MPI ranks in the store and hands the plan out.
Plan SharePlan(const Meeting& meeting) {
  constexpr char kPlan[] = "mpi_plan";
  Store& store = *meeting.store;
  const auto key_of = [](int rank) { return fmt::format("mpi_rank/{}", rank); };
  store.Set(key_of(meeting.rank()), std::to_string(mpi::WorldRank()), TimeLeft(meeting.deadline));
  if (meeting.rank() == 0) {
    std::random_device random;
    std::string plan = std::to_string(uint64_t{random()} << 32 | random());
    for (int rank = 0; rank < meeting.size(); ++rank) {
      plan += " " + store.Get(key_of(rank), TimeLeft(meeting.deadline));
    }
    store.Set(kPlan, plan, TimeLeft(meeting.deadline));
  }
  std::istringstream words(store.Get(kPlan, TimeLeft(meeting.deadline)));
  Plan plan;
  words >> plan.group_id;
  for (int rank = 0; words >> rank;) plan.world_ranks.push_back(rank);
  return plan;
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
  const Plan plan = SharePlan(meeting);
  CheckDistinct(plan.world_ranks);
  const MPI_Comm communicator =
      mpi::MakeCommunicator(plan.world_ranks, static_cast<int>(plan.group_id % kNumTags));
  return std::make_unique<MessageBackend>(std::make_unique<mpi::MpiTransport>(
      communicator, plan.group_id, meeting.rank(), meeting.size()));
}

}  // namespace ddp
