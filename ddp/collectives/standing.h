// Standing: where the ranks of one group stand, from their flight records, and who waits for whom.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddp/collectives/flight_record.h"
#include "ddp/duration.h"

namespace ddp {

using Ranks = std::vector<int>;
// Null where there is none.
using RecordsByRank = std::vector<const FlightRecord*>;

// The first operation that isn't done; null when all are.
const FlightRecord::Operation* FindWait(const FlightRecord& record);

// The ranks that have the same text, in the order of the first of each.
std::vector<Ranks> GroupBy(const Ranks& ranks, const std::function<std::string(int)>& text_of);

class Standing {
 public:
  // The records must outlive this.
  explicit Standing(RecordsByRank records);

  int size() const { return static_cast<int>(records_.size()); }
  const FlightRecord* record(int rank) const { return records_[rank]; }
  // The operation that `rank` waits in, or that failed there; null where there is none.
  const FlightRecord::Operation* wait(int rank) const { return waits_[rank]; }
  // The ranks that haven't come to the operation that `rank` waits in.
  const Ranks& waits_for(int rank) const { return waits_for_[rank]; }

  // The ranks for which `wanted` is true.
  Ranks Select(const std::function<bool(int)>& wanted) const;
  // Whether someone waits for `rank`.
  bool IsAwaited(int rank) const;
  // How long after a peer's part had failed `rank` came to its operation; zero: it was in time.
  Duration Lateness(int rank) const;

  // Ranks that others wait for and that wait for nobody themselves.
  Ranks Blockers() const;
  // Ranks whose part in an operation that someone waits in is another than most ranks'; all of them
  // where there are no most.
  Ranks OutOfStep() const;

 private:
  // Whether `mine`, of `rank`, counts together with what `from` waits in: collectives do, and the
  // two ends of the messages from one rank to another.
  bool IsNumberedWith(const FlightRecord::Operation& mine, int rank, int from) const;
  // The part of `rank` in the operation that `from` waits in; null when it isn't in the record.
  const FlightRecord::Operation* FindPart(int rank, int from) const;
  // Whether `rank` is so far on that its record has forgotten the operation that `from` waits in.
  bool IsBeyond(int rank, int from) const;
  Ranks FindAbsentees(int rank) const;

  const RecordsByRank records_;
  std::vector<const FlightRecord::Operation*> waits_;  // by rank
  std::vector<Ranks> waits_for_;                       // by rank
};

}  // namespace ddp
