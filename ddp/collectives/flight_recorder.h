// FlightRecorder: the last operations of one rank of one group, for finding out afterwards who
// waited for whom. `bazel run //ddp:desync` reads the files of all ranks.
//
//   FlightRecorder recorder({.group = "world", .backend = "shm", .rank = 0, .size = 2});
//   const int64_t id = recorder.Begin(call, buffer.num_bytes(), issued);
//   recorder.Started(id, started);
//   recorder.Ended(id, Clock::now());            // or with the error's text
//   recorder.Failed("lost rank 1: connection closed");
//   recorder.WriteTo("/var/log/job");            // .../flight_record_world_rank0.json
//
// Recording is a few stores: it takes no lock, reads no clock and, but for error texts, allocates
// nothing.
// Threads: one thread at a time calls Begin; everything else may be called by any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ddp/collectives/operation.h"
#include "ddp/duration.h"

namespace ddp {

class FlightRecorder {
 public:
  // How many operations are kept.
  static constexpr int64_t kCapacity = 256;
  static constexpr int kNoPeer = -1;

  struct Identity {
    std::string group;  // the same on all ranks; part of the file's name
    std::string backend;
    int rank = 0;
    int size = 1;
    std::string host = "";
  };

  explicit FlightRecorder(Identity identity);
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // An operation was issued. `num_bytes`: of this rank's buffer; `peer`: of a send or receive.
  // Returns its id, for what follows.
  int64_t Begin(const Call& call, int64_t num_bytes, Clock::time_point issued, int peer = kNoPeer);
  // It is this operation's turn. May be left out. Times before the group was made count as that
  // moment.
  void Started(int64_t id, Clock::time_point time);
  // It is done, or it failed if there is an error.
  void Ended(int64_t id, Clock::time_point time, const std::string& error = "");

  // Why the group failed; the first reason stays.
  void Failed(const std::string& reason);

  // One object: "group", "backend", "rank", "size", "host", "pid", "failure" ("" while there is
  // none), "written_unix_ns", "num_operations" (all since the group was made) and "operations", the
  // oldest first. Times are Unix time in nanoseconds, so that ranks can be put side by side as well
  // as their clocks allow; 0 for what hasn't happened.
  std::string ToJson() const;
  // Replaces this rank's file in `directory`, which must exist; returns its path. Throws
  // std::system_error.
  std::string WriteTo(const std::string& directory) const;

 private:
  struct Entry;
  struct Recorded;
  using Stamp = uint64_t;

  Entry& EntryOf(int64_t id) const;
  Stamp StampOf(int64_t id, Clock::time_point time) const;
  int64_t UnixNanoseconds(int64_t id, Stamp stamp) const;
  // Nothing when it is being overwritten.
  std::optional<Recorded> Read(int64_t id) const;

  const Identity identity_;
  // The same moment on both clocks.
  const Clock::time_point steady_anchor_;
  const std::chrono::system_clock::time_point wall_anchor_;
  const std::unique_ptr<std::array<Entry, kCapacity>> entries_;
  std::atomic<int64_t> next_id_ = 0;

  mutable std::mutex errors_mutex_;
  std::map<int64_t, std::string> errors_;  // by operation; guarded by errors_mutex_
  std::string failure_;                    // guarded by errors_mutex_
};

}  // namespace ddp
