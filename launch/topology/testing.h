// Tables of variables as processes, for tests.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/topology/topology.h"

namespace launch {

using Variables = std::map<std::string, std::string>;

inline Surroundings SurroundingsWith(Variables variables, std::vector<Ancestor> lineage = {}) {
  Surroundings surroundings;
  surroundings.environment =
      [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  surroundings.lineage = std::move(lineage);
  return surroundings;
}

// "slurm 3 of 4, here 1 of 2, machine 1, at node1", with "?" for what isn't known; "none 0 of 1".
std::string InShort(const Identity& identity);

// `variables` with changes; an empty text takes a variable away.
inline Variables With(Variables variables, const Variables& changes) {
  for (const auto& [name, value] : changes) variables[name] = value;
  std::erase_if(variables, [](const auto& each) { return each.second.empty(); });
  return variables;
}

}  // namespace launch
