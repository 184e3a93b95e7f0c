// The variables by which launchers tell a process its rank, and where the ranks meet. torchrun made
// these customary:
//
//   RANK, WORLD_SIZE            the place among all ranks of the job
//   MASTER_ADDR, MASTER_PORT    where the ranks meet: rank 0's machine
//
// Others have pairs of their own for the place, which are read alike.
#pragma once

#include <optional>
#include <string>

#include "ddp/environment.h"

namespace ddp {

// One of `size` ranks.
struct RankPlace {
  int rank = 0;
  int size = 1;

  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

// The place that two variables say; nothing unless both are set. Throws std::invalid_argument that
// names the variable, its value and what is expected, also where only that one is set.
std::optional<RankPlace> ReadPlace(const Environment& environment, const std::string& rank_name,
                                   const std::string& size_name);

// By RANK and WORLD_SIZE. Only one of them set is an error, too: somebody meant something.
std::optional<RankPlace> ReadTorchrunPlace(const Environment& environment);

// By mpirun's OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE.
std::optional<RankPlace> ReadOpenMpiPlace(const Environment& environment);

// Either may be unknown.
struct MasterAddress {
  std::optional<std::string> host;  // as given: a name, or an IPv4 or IPv6 address
  std::optional<int> port;
};

// MASTER_ADDR and MASTER_PORT. Throws std::invalid_argument for what is no port.
MasterAddress ReadMasterAddress(const Environment& environment);

// Throws std::invalid_argument: "RANK is not set: a rank needs ...", or "..., but WORLD_SIZE is:
// ..." where that one makes it necessary.
[[noreturn]] void ThrowMissing(const std::string& name, const std::string& because = "");

}  // namespace ddp
