#include "ddp/collectives/mpi/mpi_meeting.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

#include "ddp/collectives/mpi/runtime.h"

namespace ddp {
namespace {

using mpi::Check;

// What rank 0 tells the others.
struct Announcement {
  int port = 0;  // 0: there is no store, and `text` says why
  char text[256] = "";
};

void CheckThatMpiRuns() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized == 0 || finalized != 0) {
    throw std::invalid_argument(initialized == 0 ? "MPI isn't running: call MPI_Init first"
                                                 : "MPI isn't running any more");
  }
}

bool IsOnOneHost(MPI_Comm communicator, int size) {
  MPI_Comm neighbours = MPI_COMM_NULL;
  Check(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &neighbours),
        "MPI_Comm_split_type");
  int num_neighbours = 0;
  Check(MPI_Comm_size(neighbours, &num_neighbours), "MPI_Comm_size");
  MPI_Comm_free(&neighbours);
  return num_neighbours == size;
}

// The server's address, or why there is none.
Announcement Announce(std::unique_ptr<TcpStoreServer>& server, bool on_one_host) {
  Announcement announcement;
  try {
    constexpr char kLoopback[] = "127.0.0.1";
    server = std::make_unique<TcpStoreServer>(
        TcpStoreServerOptions{.host = on_one_host ? kLoopback : ""});
    announcement.port = server->port();
    std::snprintf(announcement.text, sizeof(announcement.text), "%s", kLoopback);
    if (!on_one_host) gethostname(announcement.text, sizeof(announcement.text) - 1);
  } catch (const std::exception& error) {
    std::snprintf(announcement.text, sizeof(announcement.text), "%s", error.what());
  }
  return announcement;
}

}  // namespace

MeetingPoint MeetOverMpi(int communicator, Duration timeout) {
  CheckThatMpiRuns();
  const MPI_Comm ranks = MPI_Comm_f2c(communicator);
  if (ranks == MPI_COMM_NULL) throw std::invalid_argument("the MPI communicator is none");
  MeetingPlace place;
  Check(MPI_Comm_rank(ranks, &place.rank), "MPI_Comm_rank");
  Check(MPI_Comm_size(ranks, &place.world_size), "MPI_Comm_size");
  const bool on_one_host = IsOnOneHost(ranks, place.world_size);
  std::unique_ptr<TcpStoreServer> server;
  Announcement announcement;
  if (place.rank == 0) announcement = Announce(server, on_one_host);
  Check(MPI_Bcast(&announcement, sizeof(announcement), MPI_BYTE, 0, ranks), "MPI_Bcast");
  if (announcement.port == 0) {
    throw std::runtime_error(std::string("rank 0 could not hold a store: ") + announcement.text);
  }
  place.host = announcement.text;
  place.port = announcement.port;
  return MeetingPoint(std::move(place), timeout, std::move(server));
}

MeetingPoint MeetOverMpiWorld(int world_size, Duration timeout) {
  mpi::Start();
  if (mpi::WorldSize() != world_size) {
    throw std::invalid_argument(
        fmt::format("MPI sees {} ranks, where its launcher's variables say {}: was this started by "
                    "the mpirun of another MPI?",
                    mpi::WorldSize(), world_size));
  }
  return MeetOverMpi(MPI_Comm_c2f(MPI_COMM_WORLD), timeout);
}

}  // namespace ddp
