// MeetingPoint: the store where the ranks of a job meet, while a process is one of them. Rank 0
// holds it, unless the launcher does.
//
//   MeetingPoint point({.host = "node1", .port = 29500, .rank = rank, .world_size = 8}, 5min);
//   ... point.store() ...
//   point.Leave(30s);   // rank 0 holds the store until all have left
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/duration.h"
#include "ddp/environment.h"
#include "ddp/store/store.h"
#include "ddp/store/tcp_store_server.h"

namespace ddp {

struct MeetingPlace {
  std::string host;
  int port = 0;
  // Where rank 0 holds the store when others have taken `port`; with a token, which tells its store
  // from theirs.
  std::vector<int> further_ports = {};
  int rank = 0;
  int world_size = 1;
  bool is_hosted = false;  // the store is there already: rank 0 need not hold it
  std::string token = "";  // what opens the store (TcpStoreOptions)
};

// Of the job, and how often its ranks have been started again.
inline constexpr char kRunIdVariable[] = "DDP_RUN_ID";
inline constexpr char kRestartCountVariable[] = "DDP_RESTART_COUNT";

// What opens the launcher's store for the ranks of one generation, and no other, by the values of
// these variables.
std::string StoreToken(const std::string& run_id, const std::string& restart_count);

// Set where the launcher holds the store: at this address, "HOST:PORT".
inline constexpr char kStoreHostedVariable[] = "DDP_STORE_HOSTED";

// The same place, but for a store that the launcher holds, if that variable names one. Throws
// std::invalid_argument when that is no address.
MeetingPlace WithStoreOfLauncher(MeetingPlace place, const Environment& environment);

// From RANK and WORLD_SIZE (under mpirun its own variables serve, too), MASTER_ADDR, MASTER_PORT.
// Throws std::invalid_argument that names the variable that is missing or makes no sense.
MeetingPlace MeetingPlaceFrom(const Environment& environment);

class MeetingPoint {
 public:
  // Connects, with the store's timeout. Rank 0 takes `server`, or begins one at the first of the
  // place's ports that is free; the others look for it there. Throws std::system_error when all
  // are in use, and what TcpStore's constructor throws.
  MeetingPoint(MeetingPlace place, Duration timeout,
               std::unique_ptr<TcpStoreServer> server = nullptr);

  const MeetingPlace& place() const { return place_; }
  const std::shared_ptr<Store>& store() const { return store_; }

  // This rank needs the others no more. Where it holds the store, waits until nobody needs that,
  // for `patience` at most.
  void Leave(Duration patience);

 private:
  MeetingPlace place_;
  std::unique_ptr<TcpStoreServer> server_;
  std::shared_ptr<Store> store_;
};

}  // namespace ddp
