// What /proc says about the processes of this machine.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace launch {

// All processes that this one may see.
std::vector<pid_t> AllProcesses();

// Nothing when the process has gone.
std::optional<pid_t> ParentOf(pid_t pid);

// The variable in the environment that the process was started with. Nothing when that has none,
// the process has ended, or is another user's.
std::optional<std::string> VariableOf(pid_t pid, const std::string& name);

}  // namespace launch
