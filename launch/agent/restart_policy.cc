#include "launch/agent/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace launch {
namespace {

// Of a job whose node is gone: nobody knows how its ranks ended.
constexpr int kLostNodeExitCode = 1;

Verdict EndWithoutFailure(const std::vector<RankEnd>& ends) {
  const bool requeue =
      std::any_of(ends.begin(), ends.end(), [](auto& end) { return end.asks_for_requeue(); });
  return requeue ? Verdict{kRequeueExitCode, "the ranks ask to be started again in a new job", {}}
                 : Verdict{};
}

// A rank's own fault explains a lost node better than the node does, and that better than ranks
// that lost their peers.
std::optional<Verdict> Trouble(const std::vector<RankEnd>& ends,
                               const std::optional<std::string>& lost_node) {
  const bool is_own_fault =
      std::any_of(ends.begin(), ends.end(), [](auto& end) { return end.is_own_fault(); });
  if (lost_node && !is_own_fault) return Verdict{kLostNodeExitCode, *lost_node, {}};
  const std::optional<Failure> failure = RootCause(ends);
  if (!failure) return std::nullopt;
  return Verdict{failure->exit_code, failure->reason, failure->rank};
}

}  // namespace

std::optional<Verdict> RestartPolicy::Judge(const NodeReport& report,
                                            const std::optional<std::string>& lost_node) {
  std::optional<Verdict> verdict = Trouble(report.ends, lost_node);
  if (verdict) {
    const std::optional<std::string> stop = ReasonToStop(report.progress);
    if (!stop) {
      ++restarts_;
      why_ = fmt::format("{}; restart {} of {}", verdict->reason, restarts_, limits_.max_restarts);
      return std::nullopt;
    }
    verdict->reason += *stop;
  } else {
    verdict = EndWithoutFailure(report.ends);
  }
  verdict->restarts = restarts_;
  verdict->ends = report.ends;
  return verdict;
}

std::optional<std::string> RestartPolicy::ReasonToStop(const std::optional<int64_t>& progress) {
  if (progress && (!furthest_ || *progress > *furthest_)) {
    furthest_ = progress;
    attempts_without_progress_ = 0;
  } else if (furthest_) {
    ++attempts_without_progress_;
  }
  if (restarts_ >= limits_.max_restarts) {
    return restarts_ == 0 ? ""
                          : fmt::format(" (restarts so far: {}, as many as allowed)", restarts_);
  }
  if (attempts_without_progress_ >= limits_.max_attempts_without_progress) {
    return fmt::format(" (no progress beyond step {} in {} attempts)", *furthest_,
                       attempts_without_progress_);
  }
  return std::nullopt;
}

}  // namespace launch
