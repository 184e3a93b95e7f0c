#include "ddp/collectives/failure.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <limits>

#include "ddp/collectives/store_values.h"
#include "ddp/errors.h"
#include "ddp/store/store.h"

namespace ddp {
namespace {

using Kind = Failure::Kind;

constexpr char kKey[] = "failure";
constexpr char kHasLeft[] = "it has left the group";
// A store that is gone must not delay the error.
constexpr Duration kStoreTimeout = std::chrono::milliseconds(200);

std::string Encode(const Failure& failure) {
  return fmt::format("{}{}:{}", static_cast<char>(failure.kind), failure.rank, failure.reason);
}

bool IsKind(char letter) {
  switch (static_cast<Kind>(letter)) {
    case Kind::kAborted:
    case Kind::kPeerLost:
    case Kind::kLeft:
    case Kind::kTimeout:
    case Kind::kMismatch:
      return true;
  }
  return false;
}

Failure Decode(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == text.npos || !IsKind(text.front())) ThrowIllegible(kKey, text);
  const std::optional<int> rank =
      ParseNumber(std::string_view(text).substr(1, colon - 1), std::numeric_limits<int>::max());
  if (!rank) ThrowIllegible(kKey, text);
  return {static_cast<Kind>(text.front()), *rank, text.substr(colon + 1)};
}

// Whether it is that `rank` is gone, as a peer sees it who doesn't know why.
bool Concerns(const Failure& failure, int rank) {
  return failure.kind == Kind::kPeerLost && failure.rank == rank;
}

}  // namespace

std::string Failure::Describe() const {
  switch (kind) {
    case Kind::kAborted:
    case Kind::kPeerLost:
      return fmt::format("lost rank {}: {}", rank, reason);
    case Kind::kLeft:
      return fmt::format("lost rank {}: {}", rank, kHasLeft);
    case Kind::kTimeout:
    case Kind::kMismatch:
      break;
  }
  return reason;
}

void Failure::Throw(const std::string& context, int self) const {
  if (kind == Kind::kAborted && rank == self) {
    throw CollectiveError(fmt::format("{}: aborted: {}", context, reason));
  }
  if (kind == Kind::kPeerLost && rank == self) {
    throw CollectiveError(
        fmt::format("{}: the other ranks have given this one up: {}", context, reason));
  }
  const std::string message = fmt::format("{}: {}", context, Describe());
  if (kind == Kind::kTimeout) throw TimeoutError(message);
  if (kind == Kind::kMismatch) throw MismatchError(message);
  throw PeerLostError(message, rank);
}

std::string FormatRanks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

Failure AgreeOnFailure(Store& store, const Failure& mine) {
  try {
    const std::string found = store.CompareAndSet(kKey, "", Encode(mine), kStoreTimeout);
    const Failure first = Decode(found);
    if (first.kind != Kind::kLeft || mine.kind == Kind::kLeft) return first;
    // Now somebody needs the rank that left, or something else has gone wrong.
    const Failure worse =
        Concerns(mine, first.rank) ? Failure{Kind::kPeerLost, first.rank, kHasLeft} : mine;
    return Decode(store.CompareAndSet(kKey, found, Encode(worse), kStoreTimeout));
  } catch (const std::exception&) {
    return mine;
  }
}

std::optional<Failure> FindFailure(Store& store) {
  std::string text;
  try {
    if (!store.Check({kKey}, kStoreTimeout)) return std::nullopt;
    text = store.Get(kKey, kStoreTimeout);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return Decode(text);
}

}  // namespace ddp
