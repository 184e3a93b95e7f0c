// Lifeline: lets a store's server know that this process lives, and leaves a will: keys that the
// server sets when it no longer does.
//
//   Lifeline lifeline({"node1", 29500, token}, 10s);
//   lifeline.SetWill({{"lost/3", "host b"}});
//   poll(lifeline.fd(), ...);                                     // until next_ping() at most
//   lifeline.Handle();                                            // throws when the store is gone
//
// The will is carried out as soon as the connection breaks, so at once when the process ends, and
// when nothing is heard from it for the time given, as when it is stopped or its network is cut.
//
// StoreWatch: a key's value, for who polls for it among other things.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ddp/duration.h"
#include "ddp/store/store_connection.h"

namespace ddp {

class Lifeline {
 public:
  // `silence`: how long either side may say nothing. Connects within it; errors as TcpStore's.
  Lifeline(const StoreAddress& address, Duration silence);

  // Returns when the server has it. Keys that are there when it is carried out stay as they are. An
  // empty one is none: the process may end.
  void SetWill(std::map<std::string, std::string> will);

  int fd() const { return connection_.fd(); }
  Deadline next_ping() const { return next_ping_; }
  // Asks and answers as need be. Throws CollectiveError when the store is lost, TimeoutError when
  // it has been silent for too long.
  void Handle();

 private:
  void Ping();

  const std::string name_;
  const Duration silence_;
  StoreConnection connection_;
  std::string request_;     // the will, encoded
  int num_unanswered_ = 0;  // pings
  Deadline next_ping_, heard_;
};

class StoreWatch {
 public:
  StoreWatch(const StoreAddress& address, const std::string& key, Duration timeout);

  // Readable when there is something to take.
  int fd() const { return connection_.fd(); }
  // The value, once. Throws CollectiveError when the store is lost.
  std::optional<std::string> Take();

 private:
  const std::string name_;
  StoreConnection connection_;
};

}  // namespace ddp
