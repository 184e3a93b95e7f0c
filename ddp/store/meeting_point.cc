#include "ddp/store/meeting_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ddp/errors.h"
#include "ddp/store/socket.h"
#include "ddp/store/tcp_store.h"

namespace ddp {
namespace {

std::string DoneKey(int rank) { return fmt::format("launch/done/{}", rank); }

// The value of `name`, or of what mpirun calls it.
std::string Variable(const std::string& name, const char* mpirun_name = "") {
  for (const char* each : {name.c_str(), mpirun_name}) {
    const char* value = std::getenv(each);
    if (value != nullptr && *value != '\0') return value;
  }
  throw std::invalid_argument(fmt::format(
      "{} is not set: a rank needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT", name));
}

int Number(const std::string& name, const std::string& text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw std::invalid_argument(
        fmt::format("{}={}: expected a number from {} to {}", name, text, low, high));
  }
  return value;
}

}  // namespace

MeetingPlace MeetingPlaceFromEnvironment() {
  MeetingPlace place;
  place.world_size = Number("WORLD_SIZE", Variable("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"), 1,
                            std::numeric_limits<int>::max());
  place.rank = Number("RANK", Variable("RANK", "OMPI_COMM_WORLD_RANK"), 0, place.world_size - 1);
  place.host = Variable("MASTER_ADDR");
  place.port = Number("MASTER_PORT", Variable("MASTER_PORT"), 1, 65535);
  return WithStoreOfLauncher(place);
}

std::string StoreToken(const std::string& run_id, int64_t restart_count) {
  return fmt::format("{}.{}", run_id, restart_count);
}

MeetingPlace WithStoreOfLauncher(MeetingPlace place) {
  const char* address = std::getenv(kStoreHostedVariable);
  if (address == nullptr) return place;
  const HostAndPort parsed = ParseAddress(address);
  place.host = parsed.host;
  place.port = parsed.port;
  place.is_hosted = true;
  const char* run_id = std::getenv(kRunIdVariable);
  const char* restart_count = std::getenv(kRestartCountVariable);
  if (run_id != nullptr && restart_count != nullptr) {
    place.token = fmt::format("{}.{}", run_id, restart_count);
  }
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
