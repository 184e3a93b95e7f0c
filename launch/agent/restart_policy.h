// RestartPolicy: whether ranks that failed are started again.
//
// They are, up to a number of times, unless that leads nowhere: where programs tell their progress
// (report.h), some attempts in a row that come no further than those before end the job. Programs
// that never tell are started again as often as allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launch/agent/rendezvous.h"

namespace launch {

struct RestartLimits {
  int max_restarts = 0;
  int max_attempts_without_progress = 3;
};

class RestartPolicy {
 public:
  explicit RestartPolicy(const RestartLimits& limits) : limits_(limits) {}

  // After all ranks of a generation have ended: how the job ends, or nothing, and then they are to
  // be started again. `lost_node` says which node was lost, if one was.
  std::optional<Verdict> Judge(const NodeReport& report,
                               const std::optional<std::string>& lost_node = {});

  int restarts() const { return restarts_; }
  // "rank 1 failed: exit code 3; restart 1 of 2"; "" before the first.
  const std::string& why() const { return why_; }

 private:
  std::optional<std::string> ReasonToStop(const std::optional<int64_t>& progress);

  const RestartLimits limits_;
  int restarts_ = 0;
  std::string why_;
  std::optional<int64_t> furthest_;
  int attempts_without_progress_ = 0;
};

}  // namespace launch
