#include "ddp/collectives/meeting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "ddp/collectives/failure.h"
#include "ddp/collectives/store_values.h"
#include "ddp/errors.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

constexpr char kMembersKey[] = "members";
// Before a list of members, or before why there is none.
constexpr char kMembers = '+';
constexpr char kRefusal = '-';

std::string MemberKey(int rank) { return fmt::format("member/{}", rank); }

std::string Encode(const Member& member) {
  return fmt::format("{}\n{}\n{}\n{}\n", member.world_size, member.backend, member.host,
                     member.address);
}

// One or more, one after the other. Throws CollectiveError where the store's `key` holds anything
// else.
std::vector<Member> DecodeMembers(const std::string& key, const std::string& value) {
  std::vector<Member> members;
  std::istringstream lines(value);
  for (std::string line; std::getline(lines, line);) {
    Member member;
    member.world_size = ParseNumber(line, std::numeric_limits<int>::max()).value_or(0);
    for (std::string* const text : {&member.backend, &member.host, &member.address}) {
      std::getline(lines, *text);
    }
    // A line without an end isn't whole.
    if (member.world_size == 0 || !lines || lines.eof()) ThrowIllegible(key, value);
    members.push_back(std::move(member));
  }
  if (members.empty()) ThrowIllegible(key, value);
  return members;
}

// As rank 0 wrote it. Throws CollectiveError where it can't have done so, and MismatchError with
// what it says against the group.
std::vector<Member> DecodeVerdict(const std::string& value) {
  if (value.starts_with(kRefusal)) throw MismatchError(value.substr(1));
  if (!value.starts_with(kMembers)) ThrowIllegible(kMembersKey, value);
  std::vector<Member> members = DecodeMembers(kMembersKey, value.substr(1));
  if (std::cmp_not_equal(members.size(), members.front().world_size)) {
    ThrowIllegible(kMembersKey, value);
  }
  return members;
}

// The same for processes of one user and one boot of one machine, in one network namespace and in
// one where they see each other's processes.
std::string HostId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  for (const char* const space : {"/proc/self/ns/net", "/proc/self/ns/pid"}) {
    char name[64] = "";
    [[maybe_unused]] const ssize_t size = readlink(space, name, sizeof name - 1);
    id += fmt::format(" {}", name);
  }
  return fmt::format("{} {}", id, getuid());
}

// The groups that a rank makes over one store are numbered.
std::shared_ptr<Store> OpenGroupStore(const ProcessGroupOptions& options) {
  const int64_t number =
      options.store->Add(fmt::format("groups/{}", options.rank), 1, options.timeout);
  return std::make_shared<PrefixStore>(fmt::format("group/{}/", number), options.store);
}

[[noreturn]] void ThrowMissing(Store& store, const ProcessGroupOptions& options) {
  std::vector<int> missing;
  for (int rank = 0; rank < options.world_size; ++rank) {
    if (!store.Check({MemberKey(rank)}, std::chrono::seconds(1))) missing.push_back(rank);
  }
  if (missing.empty()) {
    throw TimeoutError(
        fmt::format("all {} ranks came within {}, but rank 0 didn't say who they are",
                    options.world_size, FormatSeconds(options.timeout)));
  }
  throw TimeoutError(fmt::format("{} of {} ranks joined within {}; missing: {}",
                                 options.world_size - missing.size(), options.world_size,
                                 FormatSeconds(options.timeout), FormatRanks(missing)));
}

// Throws MismatchError if `member`, of rank `rank`, wants another group than this rank does.
void CheckMember(const ProcessGroupOptions& options, int rank, const Member& member) {
  if (member.world_size != options.world_size) {
    throw MismatchError(fmt::format("rank {} joined a world of {}, rank {} one of {}", options.rank,
                                    options.world_size, rank, member.world_size));
  }
  if (member.backend != options.backend) {
    throw MismatchError(fmt::format("rank {} asked for backend '{}', rank {} for '{}'",
                                    options.rank, options.backend, rank, member.backend));
  }
}

// Rank 0 collects the members, one after the other: a disagreement with one needn't wait for the
// next, and is told to all.
std::string CollectMembers(Store& store, const ProcessGroupOptions& options, Deadline deadline) {
  std::string members(1, kMembers);
  try {
    for (int rank = 0; rank < options.world_size; ++rank) {
      const std::string text = store.Get(MemberKey(rank), TimeLeft(deadline));
      const std::vector<Member> member = DecodeMembers(MemberKey(rank), text);
      if (member.size() != 1) ThrowIllegible(MemberKey(rank), text);
      CheckMember(options, rank, member.front());
      members += text;
    }
  } catch (const TimeoutError&) {
    throw;
  } catch (const CollectiveError& error) {
    return kRefusal + std::string(error.what());
  }
  return members;
}

}  // namespace

Meeting MeetMembers(const ProcessGroupOptions& options) {
  Meeting meeting;
  meeting.options = options;
  meeting.deadline = DeadlineAfter(options.timeout);
  Member self;
  self.world_size = options.world_size;
  self.backend = options.backend;
  self.host = options.host.empty() ? HostId() : options.host;
  if (options.world_size == 1) {
    meeting.members.push_back(std::move(self));
    return meeting;
  }
  self.address = options.store->local_address();
  meeting.store = OpenGroupStore(options);
  Store& store = *meeting.store;
  try {
    store.Set(MemberKey(options.rank), Encode(self), TimeLeft(meeting.deadline));
    if (options.rank == 0) {
      store.Set(kMembersKey, CollectMembers(store, options, meeting.deadline),
                TimeLeft(meeting.deadline));
    }
    meeting.members = DecodeVerdict(store.Get(kMembersKey, TimeLeft(meeting.deadline)));
  } catch (const TimeoutError&) {
    ThrowMissing(store, options);
  }
  // Rank 0 may have come to a smaller world than this rank.
  CheckMember(options, 0, meeting.members.front());
  return meeting;
}

}  // namespace ddp
