#include "ddp/collectives/flight_recorder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "ddp/atomic_file.h"

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::nanoseconds;

// Held for the few stores, or the copy, of one entry: a mutex would cost as much as they do.
class EntryLock {
 public:
  explicit EntryLock(std::atomic<bool>& is_held) : is_held_(is_held) {
    while (is_held_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  ~EntryLock() { is_held_.store(false, std::memory_order_release); }
  EntryLock(const EntryLock&) = delete;
  EntryLock& operator=(const EntryLock&) = delete;

 private:
  std::atomic<bool>& is_held_;
};

struct Recorded {
  int64_t id = -1;
  Call call;
  int64_t num_bytes = 0;
  int peer = FlightRecorder::kNoPeer;
  // The epoch: not yet.
  Clock::time_point issued, started, ended;
  std::string error;

  std::string_view state() const {
    if (!error.empty()) return "failed";
    if (ended != Clock::time_point()) return "done";
    return started != Clock::time_point() ? "started" : "issued";
  }
};

}  // namespace

struct FlightRecorder::Entry {
  std::atomic<bool> is_held = false;
  Recorded recorded;  // guarded by is_held
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

int64_t FlightRecorder::Begin(const Call& call, int64_t num_bytes, Clock::time_point issued,
                              int peer) {
  const int64_t id = next_id_.load(std::memory_order_relaxed);
  next_id_.store(id + 1, std::memory_order_relaxed);
  Entry& entry = EntryOf(id);
  const EntryLock lock(entry.is_held);
  entry.recorded = {id, call, num_bytes, peer, issued, {}, {}, {}};
  return id;
}

void FlightRecorder::Started(int64_t id, Clock::time_point time) {
  Entry& entry = EntryOf(id);
  const EntryLock lock(entry.is_held);
  if (entry.recorded.id == id) entry.recorded.started = time;
}

void FlightRecorder::Ended(int64_t id, Clock::time_point time, std::string error) {
  Entry& entry = EntryOf(id);
  const EntryLock lock(entry.is_held);
  if (entry.recorded.id != id) return;
  entry.recorded.ended = time;
  entry.recorded.error = std::move(error);
}

void FlightRecorder::Failed(const std::string& reason) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_.empty()) failure_ = reason;
}

std::string FlightRecorder::ToJson() const {
  std::vector<Recorded> operations;
  for (Entry& entry : *entries_) {
    const EntryLock lock(entry.is_held);
    if (entry.recorded.id >= 0) operations.push_back(entry.recorded);
  }
  std::ranges::sort(operations, {}, &Recorded::id);

  const auto unix_ns = [this](Clock::time_point time) -> int64_t {
    if (time == Clock::time_point()) return 0;
    const nanoseconds since_epoch = wall_anchor_.time_since_epoch() + (time - steady_anchor_);
    return since_epoch.count();
  };
  const auto failure = [this] {
    const std::lock_guard lock(failure_mutex_);
    return failure_;
  };

  Json json = {{"format", "ddp flight record 1"},
               {"group", identity_.group},
               {"backend", identity_.backend},
               {"rank", identity_.rank},
               {"size", identity_.size},
               {"host", identity_.host},
               {"pid", getpid()},
               {"failure", failure()},
               {"written_unix_ns", unix_ns(Clock::now())},
               {"num_operations", next_id_.load(std::memory_order_relaxed)},
               {"operations", Json::array()}};
  for (const Recorded& recorded : operations) {
    Json operation = {{"id", recorded.id},
                      {"operation", Name(recorded.call.kind)},
                      {"sequence_number", recorded.call.sequence_number},
                      {"call", Describe(recorded.call)},
                      {"counts_hash", recorded.call.counts_hash},
                      {"num_bytes", recorded.num_bytes},
                      {"state", recorded.state()},
                      {"issued_unix_ns", unix_ns(recorded.issued)},
                      {"started_unix_ns", unix_ns(recorded.started)},
                      {"ended_unix_ns", unix_ns(recorded.ended)}};
    if (recorded.peer != kNoPeer) operation["peer"] = recorded.peer;
    if (!recorded.error.empty()) operation["error"] = recorded.error;
    json["operations"].push_back(std::move(operation));
  }
  // Texts of other libraries may be in any encoding: a record with odd letters beats none.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string FlightRecorder::WriteTo(const std::string& directory) const {
  const std::string path =
      fmt::format("{}/flight_record_{}_rank{}.json", directory, identity_.group, identity_.rank);
  WriteFileAtomically(path, ToJson());
  return path;
}

}  // namespace ddp
