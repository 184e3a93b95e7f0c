// Failure: why a group ended. The first rank to fail writes it into the store, so that the others,
// who see no more than a closed connection, name the same cause.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ddp {

class Store;

struct Failure {
  enum class Kind : char {
    kAborted = 'a',   // `rank` gave up; the reason is its own
    kPeerLost = 'p',  // the connection to `rank` broke
    kLeft = 'l',      // `rank` has ended its group, in good order
    kTimeout = 't',   // `rank` waited in vain; the reason says for whom
    kMismatch = 'm',  // ranks asked for different things; the reason says what
  };

  Kind kind = Kind::kAborted;
  int rank = 0;
  std::string reason = "";

  // "lost rank 1: connection closed"
  std::string Describe() const;
  // Throws the error of this kind, "CONTEXT: lost rank 1: connection closed". On rank `self` its
  // own abort isn't the loss of a peer.
  [[noreturn]] void Throw(const std::string& context, int self) const;
};

// "rank 1", "ranks 1, 2".
std::string FormatRanks(const std::vector<int>& ranks);

// Writes `mine` into `store`, unless there is a failure already; that another rank left in good
// order gives way to what is worse. Returns the one that is there now; `mine` when the store
// doesn't answer soon or holds what no rank has written.
Failure AgreeOnFailure(Store& store, const Failure& mine);

// The one that is there, if any; nothing when the store doesn't answer soon. Throws CollectiveError
// where no rank can have written what is there.
std::optional<Failure> FindFailure(Store& store);

}  // namespace ddp
