#include "ddp/store/meeting_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ddp/errors.h"
#include "ddp/store/rank_variables.h"
#include "ddp/store/socket.h"
#include "ddp/store/tcp_store.h"

namespace ddp {
namespace {

std::string DoneKey(int rank) { return fmt::format("launch/done/{}", rank); }

}  // namespace

MeetingPlace MeetingPlaceFrom(const Environment& environment) {
  std::optional<RankPlace> place = ReadTorchrunPlace(environment);
  if (!place) place = ReadOpenMpiPlace(environment);
  const MasterAddress master = ReadMasterAddress(environment);
  if (!place) ThrowMissing("RANK");
  if (!master.host) ThrowMissing("MASTER_ADDR");
  if (!master.port) ThrowMissing("MASTER_PORT");
  return WithStoreOfLauncher(
      {.host = *master.host, .port = *master.port, .rank = place->rank, .world_size = place->size},
      environment);
}

std::string StoreToken(const std::string& run_id, const std::string& restart_count) {
  return fmt::format("{}.{}", run_id, restart_count);
}

MeetingPlace WithStoreOfLauncher(MeetingPlace place, const Environment& environment) {
  const std::optional<std::string> address = TextOf(environment, kStoreHostedVariable);
  if (!address) return place;
  const HostAndPort parsed = ParseAddress(*address);
  place.host = parsed.host;
  place.port = parsed.port;
  place.is_hosted = true;
  const std::optional<std::string> run_id = TextOf(environment, kRunIdVariable);
  const std::optional<std::string> restart_count = TextOf(environment, kRestartCountVariable);
  if (run_id && restart_count) place.token = StoreToken(*run_id, *restart_count);
  return place;
}

MeetingPoint::MeetingPoint(MeetingPlace place, Duration timeout,
                           std::unique_ptr<TcpStoreServer> server)
    : place_(std::move(place)), server_(std::move(server)) {
  if (place_.rank == 0 && !place_.is_hosted && server_ == nullptr) {
    server_ = std::make_unique<TcpStoreServer>(
        TcpStoreServerOptions{.host = IsLoopback(place_.host) ? place_.host : "",
                              .port = place_.port,
                              .token = place_.token});
  }
  store_ = std::make_shared<TcpStore>(place_.host, place_.port,
                                      TcpStoreOptions{.timeout = timeout, .token = place_.token});
}

void MeetingPoint::Leave(Duration patience) {
  const Duration timeout = std::min(patience, store_->timeout());
  try {
    store_->Set(DoneKey(place_.rank), "", timeout);
    if (!server_) return;
    std::vector<std::string> all;
    for (int rank = 0; rank < place_.world_size; ++rank) all.push_back(DoneKey(rank));
    store_->Wait(all, timeout);
  } catch (const CollectiveError&) {
    // The store is gone, or a rank is: neither changes how this rank's work ended.
  }
}

}  // namespace ddp
