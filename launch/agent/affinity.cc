#include "launch/agent/affinity.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace launch {

Cpus AvailableCpus() {
  Cpus cpus;
  cpus.online = std::max<int>(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t mask;
  // A machine may have more CPUs than such a mask has bits; then all is allowed that can be told.
  cpus.allowed = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : cpus.online;
  return cpus;
}

std::optional<std::string> OneCpuWarning(const Cpus& cpus, int threads) {
  if (cpus.allowed > 1 || cpus.online == 1 || threads <= 1) return std::nullopt;
  return fmt::format(
      "warning: {} threads or ranks share one of this machine's {} CPUs, as that is all that this "
      "process was given; with Slurm pass --cpus-per-task to srun too, with mpirun --bind-to none",
      threads, cpus.online);
}

}  // namespace launch
