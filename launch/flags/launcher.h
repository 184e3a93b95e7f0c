// The flags by which programs learn who started them: --launcher and --expect_world.
#pragma once

#include "launch/topology/topology.h"

namespace launch {

struct LauncherFlags {
  Launcher launcher = Launcher::kAuto;
  int expected_world_size = 0;  // 0: any
};

// Throws std::invalid_argument that names the flag, its value and what is expected.
LauncherFlags ReadLauncherFlags();

}  // namespace launch
