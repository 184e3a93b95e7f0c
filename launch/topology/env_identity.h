// The place that torchrun's variables say, which many launchers set, and batch scripts by hand:
//
//   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT    ddp/store/rank_variables.h
//   LOCAL_RANK, LOCAL_WORLD_SIZE                  among the ranks of this machine
//   GROUP_RANK                                    the machine's number; elsewhere NODE_RANK,
//   CROSS_RANK
#pragma once

#include <optional>

#include "launch/topology/topology.h"

namespace launch {

// Nothing when neither RANK nor WORLD_SIZE is set.
std::optional<Identity> EnvIdentity(const Environment& environment);

// Whose variables they must be, as nobody else sets it with them: "torchrun", or the agent of this
// library. Nothing where anybody may have set them.
std::optional<std::string> EnvLauncher(const Environment& environment);

// Takes MASTER_ADDR and MASTER_PORT, each where it is set.
void PreferMasterAddress(const Environment& environment, Rendezvous* rendezvous);

}  // namespace launch
