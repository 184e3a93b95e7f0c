#include "ddp/collectives/auto/host_plan.h"

#include <algorithm>
#include <map>

#include "ddp/store/prefix_store.h"

namespace ddp {

std::vector<int> HostPlan::leaders() const {
  std::vector<int> leaders;
  for (const std::vector<int>& ranks : hosts) leaders.push_back(ranks.front());
  return leaders;
}

int HostPlan::HostOf(int rank) const {
  const auto holds = [rank](const std::vector<int>& ranks) {
    return std::ranges::binary_search(ranks, rank);
  };
  return static_cast<int>(std::ranges::find_if(hosts, holds) - hosts.begin());
}

HostPlan PlanHosts(const std::vector<Member>& members, int rank) {
  HostPlan plan;
  std::map<std::string, size_t> host_by_name;
  for (int r = 0; r < static_cast<int>(members.size()); ++r) {
    const size_t host = host_by_name.try_emplace(members[r].host, plan.hosts.size()).first->second;
    if (host == plan.hosts.size()) plan.hosts.emplace_back();
    if (r == rank) {
      plan.host = static_cast<int>(host);
      plan.local_index = static_cast<int>(plan.hosts[host].size());
    }
    plan.hosts[host].push_back(r);
  }
  return plan;
}

Meeting MeetingOf(const Meeting& meeting, const std::vector<int>& ranks, const std::string& name) {
  Meeting part = meeting;
  part.options.rank = static_cast<int>(std::ranges::find(ranks, meeting.rank()) - ranks.begin());
  part.options.world_size = static_cast<int>(ranks.size());
  part.store = std::make_shared<PrefixStore>(name + "/", meeting.store);
  part.members.clear();
  for (const int rank : ranks) part.members.push_back(meeting.members[rank]);
  return part;
}

}  // namespace ddp
