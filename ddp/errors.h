// What goes wrong between ranks. Bad arguments are std::invalid_argument, trouble with the
// operating system is std::system_error; these are for everything that involves a peer.
//
// Messages read: "rank 1: all_reduce #17 (float32, 1024 elements) failed after 0.3 s: lost rank 0:
// connection closed". A group that failed stays failed: its next operation throws the first cause
// at once.
#pragma once

#include <stdexcept>
#include <string>

namespace ddp {

class CollectiveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A deadline passed; the message says what was waited for, and for how long.
class TimeoutError : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

// A peer's process ended or its connection broke.
class PeerLostError : public CollectiveError {
 public:
  PeerLostError(const std::string& message, int peer) : CollectiveError(message), peer_(peer) {}
  int peer() const { return peer_; }

 private:
  int peer_;
};

// Ranks asked for different things; the message names both sides.
class MismatchError : public CollectiveError {
 public:
  using CollectiveError::CollectiveError;
};

// Some rank's gradients are NaN or infinite; the message names parameters and ranks. Thrown on all
// ranks alike, and the group goes on: the step may be skipped.
class NonFiniteGradientError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ddp
