// FlightRecord: what a FlightRecorder wrote, read again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

// The "format" of its JSON; changes when the fields do.
inline constexpr char kFlightRecordFormat[] = "ddp flight record 1";

struct FlightRecord {
  struct Operation {
    enum class State { kIssued, kStarted, kDone, kFailed };

    std::string kind;  // "all_reduce"
    int64_t sequence_number = 0;
    std::string call;  // "all_reduce #17 (float32[1024], sum)"
    uint32_t counts_hash = 0;
    State state = State::kIssued;
    int peer = -1;  // of a send or receive
    int64_t issued_unix_ns = 0;
    int64_t ended_unix_ns = 0;

    bool is_message() const { return peer >= 0; }
    bool is_over() const { return state == State::kDone || state == State::kFailed; }
  };

  std::string group;
  std::string backend;
  int rank = 0;
  int size = 1;
  std::string host;
  int64_t pid = 0;
  std::string failure;  // "": none
  int64_t written_unix_ns = 0;
  std::vector<Operation> operations;  // the oldest first
};

// Throws std::invalid_argument that says what is wrong.
FlightRecord ParseFlightRecord(const std::string& text);

}  // namespace ddp
