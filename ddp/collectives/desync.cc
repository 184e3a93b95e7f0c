#include "ddp/collectives/desync.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <stdexcept>
#include <utility>

#include "ddp/collectives/failure.h"
#include "ddp/collectives/standing.h"
#include "ddp/duration.h"

namespace ddp {
namespace {

using Operation = FlightRecord::Operation;

// Of subjects of one or of many.
const char* Form(const Ranks& ranks, const char* one, const char* many) {
  return ranks.size() == 1 ? one : many;
}

std::string Capitalized(std::string text) {
  text[0] = static_cast<char>(std::toupper(text[0]));
  return text;
}

// The paragraph of one group.
class Paragraph {
 public:
  // `elsewhere` says what else the process of a record waits in, outside this group; "": nothing.
  Paragraph(const RecordsByRank& records, std::function<std::string(const FlightRecord&)> elsewhere)
      : standing_(records), elsewhere_(std::move(elsewhere)) {
    for (const FlightRecord* record : records) {
      if (record != nullptr) now_ = std::max(now_, record->written_unix_ns);
    }
  }

  std::string Describe() const {
    const Ranks present = standing_.Select([&](int rank) { return standing_.record(rank); });
    const FlightRecord& any = *standing_.record(present.front());
    std::vector<std::string> parts;
    for (const Ranks& ranks : Waiting()) parts.push_back(DescribeWait(ranks));
    for (const Ranks& ranks : Idle()) parts.push_back(DescribeIdle(ranks));
    const Ranks missing = standing_.Select([&](int rank) { return !standing_.record(rank); });
    if (!missing.empty()) {
      parts.push_back(fmt::format("{} left no record", FormatRanks(missing)));
    }
    return fmt::format("Group {} ({}, {} {}){}: {}. {}", any.group, any.backend, any.size,
                       any.size == 1 ? "rank" : "ranks", DescribeFailure(), fmt::join(parts, "; "),
                       Verdict());
  }

 private:
  Duration Ago(int64_t unix_ns) const { return Duration(now_ - unix_ns); }
  bool IsLate(int rank) const { return standing_.Lateness(rank) > Duration::zero(); }

  // By what they wait in; those that came too late are apart.
  std::vector<Ranks> Waiting() const {
    return GroupBy(standing_.Select([&](int rank) { return standing_.wait(rank) != nullptr; }),
                   [&](int rank) {
                     return fmt::format("{}{}{}", standing_.wait(rank)->call,
                                        standing_.wait(rank)->state == Operation::State::kFailed,
                                        IsLate(rank));
                   });
  }
  // By what they did last.
  std::vector<Ranks> Idle() const {
    return GroupBy(standing_.Select([&](int rank) {
      return standing_.record(rank) && standing_.wait(rank) == nullptr;
    }),
                   [&](int rank) {
                     const auto& operations = standing_.record(rank)->operations;
                     return fmt::format("{}{}{}", standing_.IsAwaited(rank),
                                        elsewhere_(*standing_.record(rank)),
                                        operations.empty() ? "" : operations.back().call);
                   });
  }

  std::string DescribeFailure() const {
    const FlightRecord* first = nullptr;
    int64_t first_time = 0;
    for (int rank = 0; rank < standing_.size(); ++rank) {
      if (standing_.record(rank) == nullptr || standing_.record(rank)->failure.empty()) continue;
      const Operation* wait = standing_.wait(rank);
      const int64_t time = wait && wait->is_over() ? wait->ended_unix_ns : now_;
      if (first == nullptr || time < first_time) first = standing_.record(rank), first_time = time;
    }
    if (first == nullptr) return "";
    return fmt::format(" failed, first on rank {}, {} ago ({})", first->rank,
                       FormatSeconds(Ago(first_time)), first->failure);
  }

  std::string DescribeWait(const Ranks& ranks) const {
    const Operation& wait = *standing_.wait(ranks.front());
    Duration longest = {};
    for (const int rank : ranks) {
      const Operation& operation = *standing_.wait(rank);
      const int64_t end = operation.is_over() ? operation.ended_unix_ns : now_;
      longest = std::max(longest, Duration(end - operation.issued_unix_ns));
    }
    if (IsLate(ranks.front())) {
      return fmt::format("{} issued {} {} after it had failed elsewhere", FormatRanks(ranks),
                         wait.call, FormatSeconds(standing_.Lateness(ranks.front())));
    }
    if (wait.is_over()) {
      return fmt::format("{} failed on {} after {}", wait.call, FormatRanks(ranks),
                         FormatSeconds(longest));
    }
    return fmt::format("{} {} in {} since {}", FormatRanks(ranks), Form(ranks, "waits", "wait"),
                       wait.call, FormatSeconds(longest));
  }

  std::string DescribeIdle(const Ranks& ranks) const {
    const FlightRecord& record = *standing_.record(ranks.front());
    std::string text = FormatRanks(ranks);
    if (standing_.IsAwaited(record.rank)) {
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
    if (waiting.size() == 1)
      return standing_.wait(waiting[0][0])->is_message() ? "its end of it" : "it";
    Ranks waiters = standing_.Select([&](int waiter) {
      return std::ranges::find(standing_.waits_for(waiter), rank) !=
             standing_.waits_for(waiter).end();
    });
    const Operation& wait = *standing_.wait(waiters.front());
    return wait.is_message() ? fmt::format("its end of rank {}'s {}", waiters.front(), wait.call)
                             : wait.call;
  }

  std::string Verdict() const {
    if (const Ranks ranks = standing_.OutOfStep(); !ranks.empty()) {
      return Capitalized(FormatRanks(ranks)) + Form(ranks, " is", " are") +
             " out of step: all ranks must call the same operations in the same order.";
    }
    if (const Ranks ranks = standing_.Blockers(); !ranks.empty()) {
      const bool is_sure =
          std::ranges::any_of(ranks, [&](int rank) { return standing_.record(rank); });
      return Capitalized(FormatRanks(ranks)) + Form(ranks, " holds", " hold") + " the others up" +
             (is_sure ? "." : ", or the record was left out here.");
    }
    const Ranks late = standing_.Select([&](int rank) { return IsLate(rank); });
    if (!late.empty()) return Capitalized(FormatRanks(late)) + " came too late.";
    const Ranks waiting = standing_.Select([&](int rank) { return standing_.wait(rank); });
    if (std::ranges::any_of(waiting,
                            [&](int rank) { return !standing_.waits_for(rank).empty(); })) {
      return "They wait for each other.";
    }
    if (std::ranges::any_of(waiting, [&](int rank) { return !standing_.wait(rank)->is_over(); })) {
      return "All have come: nobody is to blame, it is stuck inside the operation.";
    }
    return "Nobody holds the others up.";
  }

  const Standing standing_;
  const std::function<std::string(const FlightRecord&)> elsewhere_;
  int64_t now_ = 0;  // when the last record was written
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
    const Paragraph paragraph(ByRank(records, record.group), [&](const FlightRecord& member) {
      return DescribeElsewhere(records, member);
    });
    text += paragraph.Describe() + "\n";
  }
  return text;
}

}  // namespace ddp
