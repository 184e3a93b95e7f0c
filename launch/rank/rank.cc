#include "launch/rank/rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "ddp/errors.h"
#include "ddp/store/socket.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"
#include "launch/agent/agent.h"
#include "launch/agent/report.h"

namespace launch {
namespace {

// How long rank 0 keeps the store open for ranks that are not done, or may never be.
constexpr ddp::Duration kFarewell = std::chrono::seconds(30);
constexpr ddp::Duration kFarewellAfterFailure = std::chrono::seconds(1);

std::string DoneKey(int rank) { return fmt::format("launch/done/{}", rank); }

// The store where the ranks of one job meet.
class MeetingPoint {
 public:
  MeetingPoint(const Identity& identity, bool is_hosted, ddp::Duration timeout)
      : identity_(identity) {
    if (identity.rank == 0 && !is_hosted) {
      server_.emplace(ddp::TcpStoreServerOptions{
          .host = ddp::IsLoopback(identity.master_addr) ? identity.master_addr : "",
          .port = identity.master_port});
    }
    store_ = std::make_shared<ddp::TcpStore>(identity.master_addr, identity.master_port,
                                             ddp::TcpStoreOptions{.timeout = timeout});
  }

  const std::shared_ptr<ddp::Store>& store() const { return store_; }

  // This rank needs the others no more. Where it holds the store, waits until nobody needs that.
  void Leave(ddp::Duration patience) {
    const ddp::Duration timeout = std::min(patience, store_->timeout());
    try {
      store_->Set(DoneKey(identity_.rank), "", timeout);
      if (!server_) return;
      std::vector<std::string> all;
      for (int rank = 0; rank < identity_.world_size; ++rank) all.push_back(DoneKey(rank));
      store_->Wait(all, timeout);
    } catch (const ddp::CollectiveError&) {
      // The store is gone, or a rank is: neither changes how this rank's work ended.
    }
  }

 private:
  const Identity& identity_;
  std::optional<ddp::TcpStoreServer> server_;
  std::shared_ptr<ddp::Store> store_;
};

// Who is told why this rank failed.
class FailureReporter {
 public:
  explicit FailureReporter(int rank) : rank_(rank) {
    const std::optional<std::string> fd = ProcessEnvironment()(kReportFdVariable);
    if (!fd) return;
    agent_ = std::atoi(fd->c_str());
    fcntl(agent_, F_SETFD, FD_CLOEXEC);  // not for programs that this rank starts
  }

  void Report(std::optional<int> lost_peer, std::string reason) const {
    // Errors of collectives begin so, and the line that is made of this does, too.
    const std::string prefix = fmt::format("rank {}: ", rank_);
    if (reason.starts_with(prefix)) reason.erase(0, prefix.size());
    if (agent_ < 0) {
      fmt::print(stderr, "rank {} failed: {}\n", rank_, OneLine(reason));
      return;
    }
    const std::string line = Encode({std::chrono::steady_clock::now(), lost_peer, reason});
    [[maybe_unused]] const ssize_t written = write(agent_, line.data(), line.size());
  }

 private:
  const int rank_;
  int agent_ = -1;
};

// Calls `body`; returns whether it ended without an exception, and reports the one that it threw.
bool Succeeds(const FailureReporter& reporter, const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const ddp::PeerLostError& e) {
    reporter.Report(e.peer(), e.what());
  } catch (const std::exception& e) {
    reporter.Report(std::nullopt, e.what());
  } catch (...) {
    reporter.Report(std::nullopt, "an exception that isn't a std::exception");
  }
  return false;
}

}  // namespace

int RunRank(const Identity& identity, const RankBody& body, ddp::Duration timeout) {
  // A line is printed when it is complete, and in one piece.
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const FailureReporter reporter(identity.rank);
  const bool is_hosted = ProcessEnvironment()(kStoreHostedVariable).has_value();
  std::optional<MeetingPoint> meeting_point;
  const bool ok = Succeeds(reporter, [&] {
    meeting_point.emplace(identity, is_hosted, timeout);
    body(identity.rank, identity.world_size, meeting_point->store());
  });
  if (meeting_point) meeting_point->Leave(ok ? kFarewell : kFarewellAfterFailure);
  return ok ? 0 : 1;
}

}  // namespace launch
