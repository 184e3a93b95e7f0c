// Process: one process of this host, told apart from a later one with the same number.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace ddp::shm {

struct Process {
  pid_t pid = 0;
  uint64_t start_time = 0;  // in clock ticks after boot, as /proc/PID/stat tells it

  friend bool operator==(const Process&, const Process&) = default;
};

Process ThisProcess();

// How the process ended ("killed by signal 9", "exited with code 3", "its process is gone"), or
// nothing while it lives. One that its parent hasn't waited for yet has ended.
std::optional<std::string> DescribeEnd(const Process& process);

}  // namespace ddp::shm
