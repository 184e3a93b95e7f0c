#include "launch/rank/rank.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

#include "ddp/collectives/mpi/mpi_meeting.h"
#include "ddp/errors.h"
#include "ddp/store/meeting_point.h"
#include "launch/agent/report.h"

namespace launch {
namespace {

// How long rank 0 keeps the store open for ranks that are not done, or may never be.
constexpr ddp::Duration kFarewell = std::chrono::seconds(30);
constexpr ddp::Duration kFarewellAfterFailure = std::chrono::seconds(1);

// The descriptor by which the agent hears of this rank; -1 where there is none.
int AgentFd() {
  const std::optional<std::string> fd = ProcessEnvironment()(kReportFdVariable);
  return fd ? std::atoi(fd->c_str()) : -1;
}

// In one piece.
void Tell(int agent, const std::string& line) {
  [[maybe_unused]] const ssize_t written = write(agent, line.data(), line.size());
}

// Who is told why this rank failed.
class FailureReporter {
 public:
  explicit FailureReporter(int rank) : rank_(rank), agent_(AgentFd()) {
    if (agent_ >= 0) fcntl(agent_, F_SETFD, FD_CLOEXEC);  // not for programs that this rank starts
  }

  void Report(std::optional<int> lost_peer, std::string reason) const {
    // Errors of collectives begin so, and the line that is made of this does, too.
    const std::string prefix = fmt::format("rank {}: ", rank_);
    if (reason.starts_with(prefix)) reason.erase(0, prefix.size());
    if (agent_ < 0) {
      fmt::print(stderr, "rank {} failed: {}\n", rank_, OneLine(reason));
      return;
    }
    Tell(agent_, Encode({std::chrono::steady_clock::now(), lost_peer, reason}));
  }

 private:
  const int rank_;
  const int agent_;
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

ddp::MeetingPoint Meet(const Identity& identity, ddp::Duration timeout) {
  const auto& [host, ports, host_why, ports_why, token] = identity.rendezvous;
  if (host.empty() || ports.empty()) {
    if (identity.launcher == Launcher::kMpi) {
      return ddp::MeetOverMpiWorld(identity.world_size, timeout);
    }
    throw std::invalid_argument(
        fmt::format("nobody says where the ranks meet: {}; set MASTER_ADDR and MASTER_PORT",
                    host.empty() ? host_why : ports_why));
  }
  return ddp::MeetingPoint(
      ddp::WithStoreOfLauncher({.host = host,
                                .port = ports.front(),
                                .further_ports = {ports.begin() + 1, ports.end()},
                                .rank = identity.rank,
                                .world_size = identity.world_size,
                                .token = token},
                               ProcessEnvironment()),
      timeout);
}

}  // namespace

void ReportProgress(int64_t step) {
  if (const int agent = AgentFd(); agent >= 0) Tell(agent, EncodeProgress(step));
}

int RunRank(const Identity& identity, const RankBody& body, ddp::Duration timeout) {
  bool stopped_early = false;
  // A line is printed when it is complete, and in one piece.
  setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const FailureReporter reporter(identity.rank);
  std::optional<ddp::MeetingPoint> meeting_point;
  const bool ok = Succeeds(reporter, [&] {
    meeting_point.emplace(Meet(identity, timeout));
    try {
      body(identity.rank, identity.world_size, meeting_point->store());
    } catch (const StoppedEarly&) {
      stopped_early = true;
    }
  });
  if (meeting_point) meeting_point->Leave(ok ? kFarewell : kFarewellAfterFailure);
  if (stopped_early) return kRequeueExitCode;
  return ok ? 0 : 1;
}

}  // namespace launch
