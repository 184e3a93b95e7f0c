#include "ddp/collectives/desync.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <stdexcept>

#include "ddp/collectives/failure.h"
#include "ddp/duration.h"

namespace ddp {
namespace {

using Operation = FlightRecord::Operation;
using Ranks = std::vector<int>;
// Null where there is none.
using RecordsByRank = std::vector<const FlightRecord*>;

// The first operation that isn't done; null when all are.
const Operation* FindWait(const FlightRecord& record) {
  const auto is_done = [](const Operation& operation) {
    return operation.state == Operation::State::kDone;
  };
  const auto found = std::ranges::find_if_not(record.operations, is_done);
  return found == record.operations.end() ? nullptr : &*found;
}

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

// The ranks that have the same text, in the order of the first of each.
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

// Of subjects of one or of many.
const char* Form(const Ranks& ranks, const char* one, const char* many) {
  return ranks.size() == 1 ? one : many;
}

std::string Capitalized(std::string text) {
  text[0] = static_cast<char>(std::toupper(text[0]));
  return text;
}

// The records of one group.
class Group {
 public:
  // `elsewhere` says what else the process of a record waits in, outside this group; "": nothing.
  Group(RecordsByRank records, std::function<std::string(const FlightRecord&)> elsewhere)
      : records_(std::move(records)), elsewhere_(std::move(elsewhere)) {
    for (const FlightRecord* record : records_) {
      waits_.push_back(record == nullptr ? nullptr : FindWait(*record));
      if (record != nullptr) now_ = std::max(now_, record->written_unix_ns);
    }
    for (int rank = 0; rank < size(); ++rank) waits_for_.push_back(FindAbsentees(rank));
  }

  std::string Describe() const {
    const FlightRecord& any =
        **std::ranges::find_if(records_, [](auto* r) { return r != nullptr; });
    std::vector<std::string> parts;
    for (const Ranks& ranks : Waiting()) parts.push_back(DescribeWait(ranks));
    for (const Ranks& ranks : Idle()) parts.push_back(DescribeIdle(ranks));
    if (const Ranks missing = Missing(); !missing.empty()) {
      parts.push_back(fmt::format("{} left no record", FormatRanks(missing)));
    }
    return fmt::format("Group {} ({}, {} {}){}: {}. {}", any.group, any.backend, size(),
                       size() == 1 ? "rank" : "ranks", DescribeFailure(), fmt::join(parts, "; "),
                       Verdict());
  }

 private:
  int size() const { return static_cast<int>(records_.size()); }
  Duration Ago(int64_t unix_ns) const { return Duration(now_ - unix_ns); }

  Ranks Select(const std::function<bool(int)>& wanted) const {
    Ranks ranks;
    for (int rank = 0; rank < size(); ++rank) {
      if (wanted(rank)) ranks.push_back(rank);
    }
    return ranks;
  }

  Ranks Missing() const {
    return Select([&](int rank) { return records_[rank] == nullptr; });
  }
  // By what they wait in; those that came too late are apart.
  std::vector<Ranks> Waiting() const {
    return GroupBy(Select([&](int rank) { return waits_[rank] != nullptr; }), [&](int rank) {
      return fmt::format("{}{}{}", waits_[rank]->call,
                         waits_[rank]->state == Operation::State::kFailed, IsLate(rank));
    });
  }
  // By what they did last.
  std::vector<Ranks> Idle() const {
    return GroupBy(Select([&](int rank) { return records_[rank] && waits_[rank] == nullptr; }),
                   [&](int rank) {
                     const auto& operations = records_[rank]->operations;
                     return fmt::format("{}{}{}", IsAwaited(rank), elsewhere_(*records_[rank]),
                                        operations.empty() ? "" : operations.back().call);
                   });
  }

  // Whether `mine`, of `rank`, counts together with what `from` waits in: collectives do, and the
  // two ends of the messages from one rank to another.
  bool IsNumberedWith(const Operation& mine, int rank, int from) const {
    const Operation& theirs = *waits_[from];
    if (!theirs.is_message()) return !mine.is_message();
    return rank == theirs.peer && mine.peer == from && mine.kind != theirs.kind;
  }

  // The part of `rank` in the operation that `from` waits in; null when it isn't in the record.
  const Operation* FindPart(int rank, int from) const {
    if (records_[rank] == nullptr) return nullptr;
    const auto& operations = records_[rank]->operations;
    const auto found = std::ranges::find_if(operations, [&](const Operation& mine) {
      return IsNumberedWith(mine, rank, from) &&
             mine.sequence_number == waits_[from]->sequence_number;
    });
    return found == operations.end() ? nullptr : &*found;
  }

  // Whether `rank` is so far on that its record has forgotten the operation that `from` waits in.
  bool IsBeyond(int rank, int from) const {
    return std::ranges::any_of(records_[rank]->operations, [&](const Operation& mine) {
      return IsNumberedWith(mine, rank, from) &&
             mine.sequence_number > waits_[from]->sequence_number;
    });
  }

  // The ranks that haven't come to the operation that `rank` waits in.
  Ranks FindAbsentees(int rank) const {
    const Operation* wait = waits_[rank];
    if (wait == nullptr) return {};
    return Select([&](int peer) {
      if (peer == rank || (wait->is_message() && peer != wait->peer)) return false;
      return records_[peer] == nullptr || (!FindPart(peer, rank) && !IsBeyond(peer, rank));
    });
  }

  bool IsAwaited(int rank) const {
    return std::ranges::any_of(waits_for_, [&](const Ranks& absentees) {
      return std::ranges::find(absentees, rank) != absentees.end();
    });
  }

  // Whether `rank` came to its operation when a peer's had failed, and how long after that.
  bool IsLate(int rank) const { return Lateness(rank) > Duration::zero(); }
  Duration Lateness(int rank) const {
    Duration lateness = {};
    for (int peer = 0; peer < size(); ++peer) {
      if (records_[peer] == nullptr || waits_[peer] == nullptr || waits_[rank] == nullptr) continue;
      if (FindPart(peer, rank) != waits_[peer] || !waits_[peer]->is_over()) continue;
      lateness =
          std::max(lateness, Duration(waits_[rank]->issued_unix_ns - waits_[peer]->ended_unix_ns));
    }
    return lateness;
  }

  std::string DescribeFailure() const {
    const FlightRecord* first = nullptr;
    int64_t first_time = 0;
    for (int rank = 0; rank < size(); ++rank) {
      if (records_[rank] == nullptr || records_[rank]->failure.empty()) continue;
      const Operation* wait = waits_[rank];
      const int64_t time = wait && wait->is_over() ? wait->ended_unix_ns : now_;
      if (first == nullptr || time < first_time) first = records_[rank], first_time = time;
    }
    if (first == nullptr) return "";
    return fmt::format(" failed, first on rank {}, {} ago ({})", first->rank,
                       FormatSeconds(Ago(first_time)), first->failure);
  }

  std::string DescribeWait(const Ranks& ranks) const {
    const Operation& wait = *waits_[ranks.front()];
    Duration longest = {};
    for (const int rank : ranks) {
      const Operation& operation = *waits_[rank];
      const int64_t end = operation.is_over() ? operation.ended_unix_ns : now_;
      longest = std::max(longest, Duration(end - operation.issued_unix_ns));
    }
    if (IsLate(ranks.front())) {
      return fmt::format("{} issued {} {} after it had failed elsewhere", FormatRanks(ranks),
                         wait.call, FormatSeconds(Lateness(ranks.front())));
    }
    if (wait.is_over()) {
      return fmt::format("{} failed on {} after {}", wait.call, FormatRanks(ranks),
                         FormatSeconds(longest));
    }
    return fmt::format("{} {} in {} since {}", FormatRanks(ranks), Form(ranks, "waits", "wait"),
                       wait.call, FormatSeconds(longest));
  }

  std::string DescribeIdle(const Ranks& ranks) const {
    const FlightRecord& record = *records_[ranks.front()];
    std::string text = FormatRanks(ranks);
    if (IsAwaited(record.rank)) {
      text +=
          fmt::format(" {} not issued {}: ", Form(ranks, "has", "have"), AwaitedFrom(record.rank));
    } else {
      text += fmt::format(" {} done all that {} issued: ", Form(ranks, "has", "have"),
                          Form(ranks, "it", "they"));
    }
    if (record.operations.empty()) {
      text += fmt::format("{} issued nothing yet", Form(ranks, "it has", "they have"));
    } else {
      const Operation& last = record.operations.back();
      text += fmt::format("{} last operation, {}, ended {} ago", Form(ranks, "its", "their"),
                          last.call, FormatSeconds(Ago(last.ended_unix_ns)));
    }
    const std::string elsewhere = elsewhere_(record);
    return elsewhere.empty() ? text : fmt::format("{}, and {}", text, elsewhere);
  }

  // "it" where all wait for the same.
  std::string AwaitedFrom(int rank) const {
    const auto waiting = Waiting();
    if (waiting.size() == 1) return waits_[waiting[0][0]]->is_message() ? "its end of it" : "it";
    Ranks waiters = Select([&](int waiter) {
      return std::ranges::find(waits_for_[waiter], rank) != waits_for_[waiter].end();
    });
    const Operation& wait = *waits_[waiters.front()];
    return wait.is_message() ? fmt::format("its end of rank {}'s {}", waiters.front(), wait.call)
                             : wait.call;
  }

  // Ranks that others wait for and that wait for nobody themselves.
  Ranks Blockers() const {
    return Select([&](int rank) { return IsAwaited(rank) && waits_for_[rank].empty(); });
  }

  // Ranks whose part in an operation that someone waits in is another than most ranks'; all of them
  // where there are no most.
  Ranks OutOfStep() const {
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

  std::string Verdict() const {
    if (const Ranks ranks = OutOfStep(); !ranks.empty()) {
      return Capitalized(FormatRanks(ranks)) + Form(ranks, " is", " are") +
             " out of step: all ranks must call the same operations in the same order.";
    }
    if (const Ranks ranks = Blockers(); !ranks.empty()) {
      const bool is_sure = std::ranges::any_of(ranks, [&](int rank) { return records_[rank]; });
      return Capitalized(FormatRanks(ranks)) + Form(ranks, " holds", " hold") + " the others up" +
             (is_sure ? "." : ", or the record was left out here.");
    }
    const Ranks late = Select([&](int rank) { return IsLate(rank); });
    if (!late.empty()) return Capitalized(FormatRanks(late)) + " came too late.";
    if (std::ranges::any_of(waits_for_, [](const Ranks& ranks) { return !ranks.empty(); })) {
      return "They wait for each other.";
    }
    const bool someone_waits = std::ranges::any_of(
        waits_, [](const Operation* wait) { return wait != nullptr && !wait->is_over(); });
    if (someone_waits)
      return "All have come: nobody is to blame, it is stuck inside the operation.";
    return "Nobody holds the others up.";
  }

  const RecordsByRank records_;
  const std::function<std::string(const FlightRecord&)> elsewhere_;
  int64_t now_ = 0;                      // when the last record was written
  std::vector<const Operation*> waits_;  // by rank; null for those that wait in nothing
  std::vector<Ranks> waits_for_;         // by rank: those that it waits for
};

// Those of one group, by rank.
RecordsByRank ByRank(const std::vector<FlightRecord>& records, const std::string& group) {
  RecordsByRank by_rank;
  for (const FlightRecord& record : records) {
    if (record.group != group) continue;
    if (by_rank.empty()) by_rank.resize(record.size);
    if (std::ssize(by_rank) != record.size) {
      throw std::invalid_argument(
          fmt::format("records of different jobs: group {} has {} ranks in one and {} in another",
                      group, by_rank.size(), record.size));
    }
    if (by_rank[record.rank] != nullptr) {
      throw std::invalid_argument(
          fmt::format("two records of rank {} of group {}", record.rank, group));
    }
    by_rank[record.rank] = &record;
  }
  return by_rank;
}

// What the process of `record` waits in as a member of another group; "" for nothing.
std::string DescribeElsewhere(const std::vector<FlightRecord>& records,
                              const FlightRecord& record) {
  for (const FlightRecord& other : records) {
    if (other.group == record.group || other.host != record.host || other.pid != record.pid) {
      continue;
    }
    const Operation* wait = FindWait(other);
    if (wait != nullptr && !wait->is_over()) {
      return fmt::format("it waits in {} of group {}", wait->call, other.group);
    }
  }
  return "";
}

}  // namespace

std::string DescribeDesync(const std::vector<FlightRecord>& records) {
  if (records.empty()) throw std::invalid_argument("no flight records");
  std::vector<std::string> groups;
  std::string text;
  for (const FlightRecord& record : records) {
    if (std::ranges::find(groups, record.group) != groups.end()) continue;
    groups.push_back(record.group);
    const Group group(ByRank(records, record.group), [&](const FlightRecord& member) {
      return DescribeElsewhere(records, member);
    });
    text += group.Describe() + "\n";
  }
  return text;
}

}  // namespace ddp
