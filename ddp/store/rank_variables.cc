#include "ddp/store/rank_variables.h"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace ddp {
namespace {

constexpr int64_t kMaxInt = std::numeric_limits<int>::max();

}  // namespace

std::optional<RankPlace> ReadPlace(const Environment& environment, const std::string& rank_name,
                                   const std::string& size_name) {
  const std::optional<int> size =
      NumberOf(environment, size_name, {1, kMaxInt}, "the number of ranks, a whole number from 1");
  const std::optional<int64_t> rank =
      NumberOf(environment, rank_name, {0, size.value_or(kMaxInt) - 1},
               size ? fmt::format("a rank below {}={}", size_name, *size) : "a rank, from 0");
  if (!rank || !size) return std::nullopt;
  return RankPlace{static_cast<int>(*rank), static_cast<int>(*size)};
}

std::optional<RankPlace> ReadTorchrunPlace(const Environment& environment) {
  const std::optional<RankPlace> place = ReadPlace(environment, "RANK", "WORLD_SIZE");
  if (place) return place;
  if (TextOf(environment, "RANK")) ThrowMissing("WORLD_SIZE", "RANK");
  if (TextOf(environment, "WORLD_SIZE")) ThrowMissing("RANK", "WORLD_SIZE");
  return std::nullopt;
}

std::optional<RankPlace> ReadOpenMpiPlace(const Environment& environment) {
  return ReadPlace(environment, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
}

MasterAddress ReadMasterAddress(const Environment& environment) {
  return {TextOf(environment, "MASTER_ADDR"),
          NumberOf(environment, "MASTER_PORT", {1, 65535}, "a port, 1 to 65535")};
}

void ThrowMissing(const std::string& name, const std::string& because) {
  throw std::invalid_argument(
      fmt::format("{} is not set{}: a rank needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
                  name, because.empty() ? "" : fmt::format(", but {} is", because)));
}

}  // namespace ddp
