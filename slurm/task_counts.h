// Slurm's counts per node: SLURM_STEP_TASKS_PER_NODE, SLURM_TASKS_PER_NODE and
// SLURM_JOB_CPUS_PER_NODE, where equal neighbours share a count: "2(x2),1" is 2, 2, 1.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace slurm {

// The counts of the first `num_nodes` nodes. What the text says about further nodes doesn't matter:
// a repetition may exceed the nodes that there are, "4(x30)" for one. Throws std::invalid_argument
// with the text and what is wrong with it, also where it says less than that.
std::vector<int> ExpandTaskCounts(std::string_view text, size_t num_nodes);

}  // namespace slurm
