#include "ddp/checkpoint/together.h"

#include <fmt/format.h>

#include <exception>
#include <vector>

namespace ddp {

CheckpointError::CheckpointError(int rank, const std::string& what)
    : CollectiveError(fmt::format("rank {}: {}", rank, what)), rank_(rank) {}

void Together(ProcessGroup& group, absl::FunctionRef<void()> work) {
  constexpr char kFailed = '!';  // so that an error without words is one too
  std::string mine;
  try {
    work();
  } catch (const std::exception& error) {
    mine = kFailed + std::string(error.what());
  }
  const std::vector<std::string> all = group.ExchangeBlobs(mine);
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!all[rank].empty()) throw CheckpointError(rank, all[rank].substr(1));
  }
}

}  // namespace ddp
