#include "launch/testing/ranks.h"

#include <map>
#include <optional>
#include <string>

#include "launch/agent/process_table.h"

namespace launch {

std::vector<pid_t> RanksOf(pid_t agent) {
  std::map<int, pid_t> by_rank;
  for (const pid_t pid : AllProcesses()) {
    if (ParentOf(pid) != agent) continue;
    if (const auto rank = VariableOf(pid, "LOCAL_RANK")) by_rank[std::stoi(*rank)] = pid;
  }
  std::vector<pid_t> ranks;
  for (const auto& [rank, pid] : by_rank) ranks.push_back(pid);
  return ranks;
}

}  // namespace launch
