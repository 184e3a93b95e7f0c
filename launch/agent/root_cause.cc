#include "launch/agent/root_cause.h"

#include <fmt/format.h>
#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <tuple>

namespace launch {
namespace {

bool DiedOfAgentsSignal(const RankEnd& end) {
  if (!WIFSIGNALED(end.wait_status)) return false;
  const int signal = WTERMSIG(end.wait_status);
  return signal == end.stop_signal || (signal == SIGKILL && end.was_killed);
}

bool EndedByAgent(const RankEnd& end) {
  if (end.report) return false;
  return WIFSIGNALED(end.wait_status) ? DiedOfAgentsSignal(end) : end.stop_signal != 0;
}

// A rank that has told why it fails was about to exit with 1.
int ExitCodeOf(const RankEnd& end) {
  return end.report && DiedOfAgentsSignal(end) ? 1 : ExitCode(end.wait_status);
}

std::string DescribeEnd(const RankEnd& end) {
  if (end.report) return end.report->reason;
  if (WIFSIGNALED(end.wait_status)) return "killed by " + DescribeSignal(WTERMSIG(end.wait_status));
  return fmt::format("exit code {}", WEXITSTATUS(end.wait_status));
}

// Lower is nearer to the cause.
std::tuple<bool, bool, TimePoint> DistanceFromCause(const RankEnd& end) {
  const bool lost_peer = end.report && end.report->lost_peer;
  return {EndedByAgent(end), lost_peer, end.report ? end.report->time : end.time};
}

// The peer whose loss made `end` fail, if that one ended as if its work were done.
const RankEnd* PeerThatLeftEarly(const RankEnd& end, const std::vector<RankEnd>& ends) {
  if (!end.report || !end.report->lost_peer) return nullptr;
  for (const RankEnd& peer : ends) {
    if (peer.rank == *end.report->lost_peer && !peer.failed()) return &peer;
  }
  return nullptr;
}

}  // namespace

bool RankEnd::asks_for_requeue() const {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kRequeueExitCode;
}

bool RankEnd::is_own_fault() const {
  return failed() && !EndedByAgent(*this) && !(report && report->lost_peer);
}

std::optional<Failure> RootCause(const std::vector<RankEnd>& ends) {
  const RankEnd* cause = nullptr;
  for (const RankEnd& end : ends) {
    if (!end.failed()) continue;
    if (cause == nullptr || DistanceFromCause(end) < DistanceFromCause(*cause)) cause = &end;
  }
  if (cause == nullptr) return std::nullopt;
  const int exit_code = ExitCodeOf(*cause);
  if (const RankEnd* early = PeerThatLeftEarly(*cause, ends)) {
    return Failure{exit_code, early->rank,
                   fmt::format("rank {} left early: rank {} still needed it: {}", early->rank,
                               cause->rank, DescribeEnd(*cause))};
  }
  return Failure{exit_code, cause->rank,
                 fmt::format("rank {} failed: {}", cause->rank, DescribeEnd(*cause))};
}

int ExitCode(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::string DescribeSignal(int signal) {
  const char* description = sigdescr_np(signal);
  return fmt::format("signal {} ({})", signal, description ? description : "unknown");
}

}  // namespace launch
