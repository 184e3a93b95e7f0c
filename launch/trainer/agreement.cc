#include "launch/trainer/agreement.h"

#include <fmt/format.h>

#include <sstream>
#include <string>
#include <vector>

#include "ddp/errors.h"

namespace launch {
namespace {

// One option a line: "--model=mlp".
std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

void CheckSame(const std::vector<std::string>& mine, int rank,
               const std::vector<std::string>& theirs, int peer) {
  if (mine.size() != theirs.size()) {
    throw ddp::MismatchError(
        fmt::format("rank {} and rank {} are different versions of this program", peer, rank));
  }
  for (size_t i = 0; i < mine.size(); ++i) {
    if (mine[i] == theirs[i]) continue;
    throw ddp::MismatchError(
        fmt::format("rank {} was started with {}, but rank {} with {}: ranks must agree", peer,
                    theirs[i], rank, mine[i]));
  }
}

}  // namespace

void CheckAllRanksAgree(ddp::ProcessGroup& group, const TrainOptions& options) {
  std::string mine;
  for (const auto& [flag, value] : SharedOptions(options)) {
    mine += fmt::format("--{}={}\n", flag, value);
  }
  // Everyone compares everyone to rank 0, so that all throw the same.
  const std::vector<std::string> all = group.ExchangeBlobs(mine);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    CheckSame(Lines(all[0]), 0, Lines(all[rank]), static_cast<int>(rank));
  }
}

}  // namespace launch
