// The place of a Slurm step's task. Only variables of the step count:
//
//   SLURM_PROCID of SLURM_STEP_NUM_TASKS    the rank; SLURM_NTASKS may be the job's
//   SLURM_LOCALID, SLURM_NODEID             on its node, and the node in the step
//   SLURM_GTIDS                             the ranks on the node
//   SLURM_STEP_NODELIST, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NUM_NODES
//
// A batch script's shell has a PROCID of 0, too, and no step of tasks: its step id, if it has one,
// is below 0. Which host rank 0 is on follows from the node list, unless the tasks' order is the
// user's own (SLURM_HOSTFILE), as the list is sorted. SLURM_LAUNCH_NODE_IPADDR is srun's host, and
// says nothing.
#pragma once

#include <optional>

#include "launch/topology/topology.h"

namespace launch {

// Nothing outside a step. Throws std::invalid_argument for variables that contradict each other.
std::optional<Identity> SlurmIdentity(const Surroundings& surroundings);

// Whether the process, or what it was wrapped in, is the step's own task. Otherwise it may be the
// child of MPI's launcher, which runs as a step's task to start others.
bool IsTaskOfStep(const Surroundings& surroundings);

// The process by itself, in an allocation perhaps: then it says why it is none of the tasks.
Identity NoTask(const Environment& environment);

}  // namespace launch
