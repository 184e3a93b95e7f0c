// What a backend's operation ends with when it doesn't end well; the group turns it into one of
// ddp/errors.h, with the cause that all ranks agree on.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

// Peers that are gone, or that didn't answer before the deadline.
class PeerTrouble : public std::exception {
 public:
  enum Kind { kLost, kTimedOut };

  // `reason`: of a loss, "connection closed", "killed by signal 9".
  PeerTrouble(Kind kind, std::vector<int> ranks, std::string reason = "")
      : kind_(kind), ranks_(std::move(ranks)), reason_(std::move(reason)) {}
  Kind kind() const { return kind_; }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::string& reason() const { return reason_; }
  const char* what() const noexcept override { return "trouble with a peer"; }

 private:
  Kind kind_;
  std::vector<int> ranks_;
  std::string reason_;
};

// Ranks that are at different operations; what() names both sides.
class Disagreement : public std::exception {
 public:
  Disagreement(int peer, std::string what) : peer_(peer), what_(std::move(what)) {}
  int peer() const { return peer_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  int peer_;
  std::string what_;
};

// Backend::Stop was called.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

}  // namespace ddp
