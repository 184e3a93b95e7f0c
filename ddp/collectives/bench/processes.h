// Ranks of a benchmark as processes of the program itself, on this machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp::bench {

// Who a process is: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT of its environment, as torchrun
// sets them; mpirun's own variables in place of the first two.
struct Identity {
  int rank = 0;
  int num_ranks = 1;
  std::string store_host;
  int store_port = 0;
};

// Nothing for a process that nobody started as a rank.
std::optional<Identity> OwnIdentity();

// Runs this program, with `arguments`, as ranks that meet at a store in this process, through
// `mpirun` if asked to. Returns when all have ended: whether all went well. When one fails the
// others are ended.
bool RunRanks(const std::vector<std::string>& arguments, int num_ranks, bool through_mpirun);

}  // namespace ddp::bench
