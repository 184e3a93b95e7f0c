#include "ddp/collectives/mpi/mpi_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
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

// Before the reason why there is no group.
constexpr char kRefusal = '!';

// What the group's ranks have to know of each other.
struct Plan {
  int first_tag = 0;
  std::vector<int> world_ranks;  // MPI's, by rank of the group
};

// This rank's MPI rank, or why it has none.
std::string IntroduceSelf(int rank) {
  try {
    mpi::Start();
    return std::to_string(mpi::WorldRank());
  } catch (const std::exception& error) {
    return fmt::format("{}backend 'mpi': rank {}: {}", kRefusal, rank, error.what());
  }
}

// Rank 0 collects what the ranks say about themselves. One that can't take part is told to all.
std::string MakePlan(const std::vector<std::string>& introductions) {
  for (const std::string& introduction : introductions) {
    if (introduction.front() == kRefusal) return introduction;
  }
  try {
    return fmt::format("{} {}", mpi::ReserveTags(), fmt::join(introductions, " "));
  } catch (const std::exception& error) {
    return fmt::format("{}backend 'mpi': {}", kRefusal, error.what());
  }
}

Plan SharePlan(const Meeting& meeting) {
  constexpr char kPlan[] = "mpi_plan";
  Store& store = *meeting.store;
  const auto key_of = [](int rank) { return fmt::format("mpi_rank/{}", rank); };
  store.Set(key_of(meeting.rank()), IntroduceSelf(meeting.rank()), TimeLeft(meeting.deadline));
  if (meeting.rank() == 0) {
    std::vector<std::string> introductions;
    for (int rank = 0; rank < meeting.size(); ++rank) {
      introductions.push_back(store.Get(key_of(rank), TimeLeft(meeting.deadline)));
    }
    store.Set(kPlan, MakePlan(introductions), TimeLeft(meeting.deadline));
  }
  const std::string text = store.Get(kPlan, TimeLeft(meeting.deadline));
  if (text.front() == kRefusal) throw std::invalid_argument(text.substr(1));
  std::istringstream words(text);
  Plan plan;
  words >> plan.first_tag;
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
  Plan plan = SharePlan(meeting);
  CheckDistinct(plan.world_ranks);
  return std::make_unique<MessageBackend>(std::make_unique<mpi::MpiTransport>(
      plan.first_tag, meeting.rank(), std::move(plan.world_ranks)));
}

}  // namespace ddp
