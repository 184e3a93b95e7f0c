// HostPlan: which ranks of a group share a host.
#pragma once

#include <vector>

#include "ddp/collectives/meeting.h"

namespace ddp {

struct HostPlan {
  // The ranks of each host in ascending order; hosts in the order of their first ranks, which are
  // their leaders.
  std::vector<std::vector<int>> hosts;
  int host = 0;         // this rank's
  int local_index = 0;  // of this rank in hosts[host]

  const std::vector<int>& local_ranks() const { return hosts[host]; }
  std::vector<int> leaders() const;
  bool is_leader() const { return local_index == 0; }
  // The host of `rank`.
  int HostOf(int rank) const;
};

HostPlan PlanHosts(const std::vector<Member>& members, int rank);

// The meeting of a part of the ranks, which this rank belongs to; `name` keeps its keys apart from
// those of other parts.
Meeting MeetingOf(const Meeting& meeting, const std::vector<int>& ranks, const std::string& name);

}  // namespace ddp
