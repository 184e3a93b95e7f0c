// The CPUs that this process, and with it its ranks, may use: what a scheduler gave, which is
// inherited as it is and never widened.
#pragma once

#include <optional>
#include <string>

namespace launch {

struct Cpus {
  int allowed = 1;  // by the mask
  int online = 1;   // of the machine
};

Cpus AvailableCpus();

// A line of warning where `threads` are to share the one CPU of a mask, though the machine has
// more: srun gives a task one where --cpus-per-task isn't repeated on its line, mpirun binds each
// rank to a core.
std::optional<std::string> OneCpuWarning(const Cpus& cpus, int threads);

}  // namespace launch
