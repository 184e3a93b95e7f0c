#include "launch/flags/launcher.h"

#include <absl/flags/flag.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "launch/text/text.h"

ABSL_FLAG(std::string, launcher, "auto",
          "who says which rank this is: auto (whoever started it), env (RANK, WORLD_SIZE), slurm "
          "(srun), mpi (mpirun), or none");
ABSL_FLAG(int64_t, expect_world, 0,
          "ranks that the launcher must have started, otherwise the job fails; 0: any");

namespace launch {

LauncherFlags ReadLauncherFlags() {
  const std::string launcher = absl::GetFlag(FLAGS_launcher);
  const int64_t world_size = absl::GetFlag(FLAGS_expect_world);
  if (world_size < 0 || world_size > std::numeric_limits<int>::max()) {
    throw std::invalid_argument(
        fmt::format("--expect_world={}: expected a number of ranks, or 0", world_size));
  }
  return {.launcher = NamingFlag("launcher", launcher, [&] { return ParseLauncher(launcher); }),
          .expected_world_size = static_cast<int>(world_size)};
}

}  // namespace launch
