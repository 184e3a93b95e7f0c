#include "ddp/store/meeting_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "ddp/errors.h"
#include "ddp/store/rank_variables.h"
#include "ddp/store/socket.h"
#include "ddp/store/tcp_store.h"

namespace ddp {
namespace {

// Of one try at one of several ports.
constexpr Duration kFirstPatience = std::chrono::milliseconds(100);
constexpr Duration kLongestPatience = std::chrono::seconds(2);

std::vector<int> PortsOf(const MeetingPlace& place) {
  std::vector<int> ports = {place.port};
  ports.insert(ports.end(), place.further_ports.begin(), place.further_ports.end());
  return ports;
}

std::unique_ptr<TcpStoreServer> Host(const MeetingPlace& place) {
  const std::vector<int> ports = PortsOf(place);
  for (const int port : ports) {
    try {
      return std::make_unique<TcpStoreServer>(TcpStoreServerOptions{
          .host = IsLoopback(place.host) ? place.host : "", .port = port, .token = place.token});
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::address_in_use || port == ports.back()) throw;
    }
  }
  return nullptr;  // there is at least one port
}

// Asks at each port, again and again: rank 0 may come later, and whoever answers may be a stranger.
std::shared_ptr<TcpStore> Find(const MeetingPlace& place, Duration timeout) {
  const Deadline deadline = DeadlineAfter(timeout);
  Duration patience = kFirstPatience;
  for (;;) {
    std::string answers;
    for (const int port : PortsOf(place)) {
      try {
        return std::make_shared<TcpStore>(
            place.host, port,
            TcpStoreOptions{.timeout = timeout,
                            .connect_timeout = std::min(patience, TimeLeft(deadline)),
                            .token = place.token});
      } catch (const CollectiveError& error) {
        answers += fmt::format("; {}", error.what());
      }
    }
    if (Clock::now() >= deadline) {
      throw TimeoutError(
          fmt::format("rank 0's store didn't come within {}{}", FormatSeconds(timeout), answers));
    }
    patience = std::min(2 * patience, kLongestPatience);
  }
}

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
  place.further_ports.clear();
  place.is_hosted = true;
  const std::optional<std::string> run_id = TextOf(environment, kRunIdVariable);
  const std::optional<std::string> restart_count = TextOf(environment, kRestartCountVariable);
  if (run_id && restart_count) place.token = StoreToken(*run_id, *restart_count);
  return place;
}

MeetingPoint::MeetingPoint(MeetingPlace place, Duration timeout,
                           std::unique_ptr<TcpStoreServer> server)
    : place_(std::move(place)), server_(std::move(server)) {
  if (place_.rank == 0 && !place_.is_hosted && server_ == nullptr) server_ = Host(place_);
  if (server_ != nullptr) {
    place_.port = server_->port();
    place_.further_ports.clear();
  }
  if (place_.further_ports.empty()) {
    store_ = std::make_shared<TcpStore>(place_.host, place_.port,
                                        TcpStoreOptions{.timeout = timeout, .token = place_.token});
  } else {
    store_ = Find(place_, timeout);
  }
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
