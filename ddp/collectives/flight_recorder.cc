#include "ddp/collectives/flight_recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "ddp/atomic_file.h"
#include "ddp/collectives/flight_record.h"

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

// What is known of one operation.
struct FlightRecorder::Recorded {
  int64_t id = 0;
  Call call;
  int64_t num_bytes = 0;
  int peer = FlightRecorder::kNoPeer;
  int64_t issued_unix_ns = 0, started_unix_ns = 0, ended_unix_ns = 0;  // 0: not yet
  std::string error;

  std::string_view state() const {
    if (ended_unix_ns == 0) return started_unix_ns == 0 ? "issued" : "started";
    return error.empty() ? "done" : "failed";
  }

  Json ToJson() const {
    Json json = {{"id", id},
                 {"operation", Name(call.kind)},
                 {"sequence_number", call.sequence_number},
                 {"call", Describe(call)},
                 {"counts_hash", call.counts_hash},
                 {"num_bytes", num_bytes},
                 {"state", state()},
                 {"issued_unix_ns", issued_unix_ns},
                 {"started_unix_ns", started_unix_ns},
                 {"ended_unix_ns", ended_unix_ns}};
    if (peer != kNoPeer) json["peer"] = peer;
    if (!error.empty()) json["error"] = error;
    return json;
  }
};

// Written without a lock, which would cost more than everything else. `id` is kChanging while Begin
// fills the entry in: who reads the same id before and after the rest has read one operation. Each
// store after the first is a release and each load an acquire, which keeps them in order.
struct FlightRecorder::Entry {
  static constexpr int64_t kChanging = -1;
  using CallWords = std::array<uint64_t, sizeof(Call) / sizeof(uint64_t)>;

  std::atomic<int64_t> id = kChanging;
  std::array<std::atomic<uint64_t>, std::tuple_size_v<CallWords>> call = {};
  std::atomic<int64_t> num_bytes = 0;
  std::atomic<int> peer = kNoPeer;
  std::atomic<Stamp> issued = 0, started = 0, ended = 0;
};

FlightRecorder::FlightRecorder(Identity identity)
    : identity_(std::move(identity)),
      steady_anchor_(Clock::now()),
      wall_anchor_(std::chrono::system_clock::now()),
      entries_(std::make_unique<std::array<Entry, kCapacity>>()) {}

FlightRecorder::~FlightRecorder() = default;

FlightRecorder::Entry& FlightRecorder::EntryOf(int64_t id) const {
  return (*entries_)[id % kCapacity];
}

// Nanoseconds since the anchor and, in the lowest byte, whose they are: an operation that ends
// after its entry was given to another doesn't end that one.
FlightRecorder::Stamp FlightRecorder::StampOf(int64_t id, Clock::time_point time) const {
  const int64_t nanoseconds = std::max<int64_t>((time - steady_anchor_).count(), 1);
  return static_cast<Stamp>(nanoseconds) << 8 | (id / kCapacity & 0xff);
}

int64_t FlightRecorder::UnixNanoseconds(int64_t id, Stamp stamp) const {
  if (stamp == 0 || (stamp & 0xff) != static_cast<Stamp>(id / kCapacity & 0xff)) return 0;
  const std::chrono::nanoseconds since_anchor(stamp >> 8);
  return (wall_anchor_.time_since_epoch() + since_anchor).count();
}

int64_t FlightRecorder::Begin(const Call& call, int64_t num_bytes, Clock::time_point issued,
                              int peer) {
  constexpr auto kRelease = std::memory_order_release;
  const int64_t id = next_id_.load(std::memory_order_relaxed);
  Entry& entry = EntryOf(id);
  entry.id.store(Entry::kChanging, std::memory_order_relaxed);
  const auto words = std::bit_cast<Entry::CallWords>(call);
  for (size_t i = 0; i < words.size(); ++i) entry.call[i].store(words[i], kRelease);
  entry.num_bytes.store(num_bytes, kRelease);
  entry.peer.store(peer, kRelease);
  entry.issued.store(StampOf(id, issued), kRelease);
  entry.started.store(0, kRelease);
  entry.ended.store(0, kRelease);
  entry.id.store(id, kRelease);
  next_id_.store(id + 1, kRelease);
  return id;
}

void FlightRecorder::Started(int64_t id, Clock::time_point time) {
  EntryOf(id).started.store(StampOf(id, time), std::memory_order_release);
}

void FlightRecorder::Ended(int64_t id, Clock::time_point time, const std::string& error) {
  if (!error.empty()) {
    const std::lock_guard lock(errors_mutex_);
    errors_.emplace(id, error);
    errors_.erase(errors_.begin(), errors_.lower_bound(next_id_ - kCapacity));
  }
  EntryOf(id).ended.store(StampOf(id, time), std::memory_order_release);
}

void FlightRecorder::Failed(const std::string& reason) {
  const std::lock_guard lock(errors_mutex_);
  if (failure_.empty()) failure_ = reason;
}

std::optional<FlightRecorder::Recorded> FlightRecorder::Read(int64_t id) const {
  constexpr auto kAcquire = std::memory_order_acquire;
  const Entry& entry = EntryOf(id);
  if (entry.id.load(kAcquire) != id) return std::nullopt;
  Entry::CallWords words;
  for (size_t i = 0; i < words.size(); ++i) words[i] = entry.call[i].load(kAcquire);
  Recorded recorded = {.id = id,
                       .call = std::bit_cast<Call>(words),
                       .num_bytes = entry.num_bytes.load(kAcquire),
                       .peer = entry.peer.load(kAcquire),
                       .issued_unix_ns = UnixNanoseconds(id, entry.issued.load(kAcquire)),
                       .started_unix_ns = UnixNanoseconds(id, entry.started.load(kAcquire)),
                       .ended_unix_ns = UnixNanoseconds(id, entry.ended.load(kAcquire)),
                       .error = ""};
  if (entry.id.load(std::memory_order_relaxed) != id) return std::nullopt;
  const std::lock_guard lock(errors_mutex_);
  if (const auto error = errors_.find(id); error != errors_.end()) recorded.error = error->second;
  return recorded;
}

std::string FlightRecorder::ToJson() const {
  const int64_t end = next_id_.load(std::memory_order_acquire);
  Json operations = Json::array();
  for (int64_t id = std::max<int64_t>(end - kCapacity, 0); id < end; ++id) {
    if (const auto recorded = Read(id)) operations.push_back(recorded->ToJson());
  }
  const std::lock_guard lock(errors_mutex_);
  const Json json = {{"format", kFlightRecordFormat},
                     {"group", identity_.group},
                     {"backend", identity_.backend},
                     {"rank", identity_.rank},
                     {"size", identity_.size},
                     {"host", identity_.host},
                     {"pid", getpid()},
                     {"failure", failure_},
                     {"written_unix_ns", UnixNanoseconds(0, StampOf(0, Clock::now()))},
                     {"num_operations", end},
                     {"operations", std::move(operations)}};
  // Texts of other libraries may be in any encoding: a record with odd letters beats none.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string FlightRecorder::WriteTo(const std::string& directory) const {
  std::string group = identity_.group;
  std::ranges::replace(group, '/', '_');
  const std::string path =
      fmt::format("{}/flight_record_{}_rank{}.json", directory, group, identity_.rank);
  WriteFileAtomically(path, ToJson());
  return path;
}

}  // namespace ddp
