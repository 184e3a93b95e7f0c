#include "ddp/collectives/standing.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace ddp {

using Operation = FlightRecord::Operation;

namespace {

// What the ranks' parts in an operation must have in common. The call of a message ends in "to rank
// 1" for one and "from rank 0" for the other.
std::string CommonOf(const Operation& part) {
  std::string call = part.call;
  if (part.is_message()) {
    const size_t data = call.find('#');
    call = call.substr(data, call.find_first_of(",)") - data);
  }
  return fmt::format("{} {}", call, part.counts_hash);
}

}  // namespace

const Operation* FindWait(const FlightRecord& record) {
  const auto is_done = [](const Operation& operation) {
    return operation.state == Operation::State::kDone;
  };
  const auto found = std::ranges::find_if_not(record.operations, is_done);
  return found == record.operations.end() ? nullptr : &*found;
}

std::vector<Ranks> GroupBy(const Ranks& ranks, const std::function<std::string(int)>& text_of) {
  std::vector<Ranks> groups;
  std::map<std::string, size_t> index;
  for (const int rank : ranks) {
    const auto [found, is_new] = index.emplace(text_of(rank), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(rank);
  }
  return groups;
}

Standing::Standing(RecordsByRank records) : records_(std::move(records)) {
  for (const FlightRecord* record : records_) {
    waits_.push_back(record == nullptr ? nullptr : FindWait(*record));
  }
  for (int rank = 0; rank < size(); ++rank) waits_for_.push_back(FindAbsentees(rank));
}

Ranks Standing::Select(const std::function<bool(int)>& wanted) const {
  Ranks ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (wanted(rank)) ranks.push_back(rank);
  }
  return ranks;
}

bool Standing::IsNumberedWith(const Operation& mine, int rank, int from) const {
  const Operation& theirs = *waits_[from];
  if (!theirs.is_message()) return !mine.is_message();
  return rank == theirs.peer && mine.peer == from && mine.kind != theirs.kind;
}

const Operation* Standing::FindPart(int rank, int from) const {
  if (records_[rank] == nullptr) return nullptr;
  const auto& operations = records_[rank]->operations;
  const auto found = std::ranges::find_if(operations, [&](const Operation& mine) {
    return IsNumberedWith(mine, rank, from) &&
           mine.sequence_number == waits_[from]->sequence_number;
  });
  return found == operations.end() ? nullptr : &*found;
}

bool Standing::IsBeyond(int rank, int from) const {
  return std::ranges::any_of(records_[rank]->operations, [&](const Operation& mine) {
    return IsNumberedWith(mine, rank, from) && mine.sequence_number > waits_[from]->sequence_number;
  });
}

Ranks Standing::FindAbsentees(int rank) const {
  const Operation* wait = waits_[rank];
  if (wait == nullptr) return {};
  return Select([&](int peer) {
    if (peer == rank || (wait->is_message() && peer != wait->peer)) return false;
    return records_[peer] == nullptr || (!FindPart(peer, rank) && !IsBeyond(peer, rank));
  });
}

bool Standing::IsAwaited(int rank) const {
  return std::ranges::any_of(waits_for_, [&](const Ranks& absentees) {
    return std::ranges::find(absentees, rank) != absentees.end();
  });
}

Duration Standing::Lateness(int rank) const {
  Duration lateness = {};
  for (int peer = 0; peer < size(); ++peer) {
    if (records_[peer] == nullptr || waits_[peer] == nullptr || waits_[rank] == nullptr) continue;
    if (FindPart(peer, rank) != waits_[peer] || !waits_[peer]->is_over()) continue;
    lateness =
        std::max(lateness, Duration(waits_[rank]->issued_unix_ns - waits_[peer]->ended_unix_ns));
  }
  return lateness;
}

Ranks Standing::Blockers() const {
  return Select([&](int rank) { return IsAwaited(rank) && waits_for_[rank].empty(); });
}

Ranks Standing::OutOfStep() const {
  for (int waiting = 0; waiting < size(); ++waiting) {
    if (waits_[waiting] == nullptr) continue;
    const auto part_of = [&](int rank) {
      return rank == waiting ? waits_[waiting] : FindPart(rank, waiting);
    };
    const Ranks taking_part = Select([&](int rank) { return part_of(rank) != nullptr; });
    const std::vector<Ranks> sides =
        GroupBy(taking_part, [&](int rank) { return CommonOf(*part_of(rank)); });
    if (sides.size() == 1) continue;
    const Ranks& most = *std::ranges::max_element(sides, {}, &Ranks::size);
    if (most.size() * 2 <= taking_part.size()) return taking_part;
    return Select([&](int rank) {
      return part_of(rank) != nullptr && std::ranges::find(most, rank) == most.end();
    });
  }
  return {};
}

}  // namespace ddp
