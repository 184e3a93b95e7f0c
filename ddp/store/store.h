// Store: a small key-value service where the ranks of a job meet: addresses, agreements, failures.
//
//   TcpStoreServer server({.port = 0});                           // one process hosts it
//   TcpStore store("127.0.0.1", server.port(), {.timeout = 30s}); // every rank connects
//   store.Set("address/3", mine);
//   std::string theirs = store.Get("address/5");                  // waits until it is there
//
// Keys and values are bytes. Get and Wait wait for keys; everything else waits only for the
// service. Each takes at most the store's timeout or the one given, then throws TimeoutError; Get
// and Wait name the keys that are missing. A service that is gone throws CollectiveError.
// All functions may be called by several threads at once; a waiting one doesn't hold up the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ddp/duration.h"
#include "ddp/errors.h"

namespace ddp {

class Store {
 public:
  using Timeout = std::optional<Duration>;  // nothing: the store's own

  virtual ~Store() = default;

  void Set(const std::string& key, const std::string& value, Timeout timeout = {}) {
    DoSet(key, value, timeout.value_or(timeout_));
  }
  // The value, as soon as there is one.
  std::string Get(const std::string& key, Timeout timeout = {}) {
    return DoGet(key, timeout.value_or(timeout_));
  }
  // Adds `amount` to a decimal number (0 when the key is missing) and returns the sum. Throws
  // std::invalid_argument when the value is no number or the sum doesn't fit.
  int64_t Add(const std::string& key, int64_t amount, Timeout timeout = {}) {
    return DoAdd(key, amount, timeout.value_or(timeout_));
  }
  // Sets the value to `desired` if it is `expected` ("" also stands for a missing key). Returns
  // the value after that ("" for a missing key): `desired` means it was set, or was there already.
  std::string CompareAndSet(const std::string& key, const std::string& expected,
                            const std::string& desired, Timeout timeout = {}) {
    return DoCompareAndSet(key, expected, desired, timeout.value_or(timeout_));
  }
  // Returns when all keys are there.
  void Wait(const std::vector<std::string>& keys, Timeout timeout = {}) {
    DoWait(keys, timeout.value_or(timeout_));
  }
  // Whether all keys are there now.
  bool Check(const std::vector<std::string>& keys, Timeout timeout = {}) {
    return DoCheck(keys, timeout.value_or(timeout_));
  }
  // Returns whether the key was there.
  bool Delete(const std::string& key, Timeout timeout = {}) {
    return DoDelete(key, timeout.value_or(timeout_));
  }

  // The address of this machine on the way to the service, which peers can reach too: "10.0.0.7";
  // "" where the store doesn't know.
  virtual std::string local_address() const { return ""; }

  Duration timeout() const { return timeout_; }

 protected:
  explicit Store(Duration timeout) : timeout_(timeout) {}

 private:
  virtual void DoSet(const std::string& key, const std::string& value, Duration timeout) = 0;
  virtual std::string DoGet(const std::string& key, Duration timeout) = 0;
  virtual int64_t DoAdd(const std::string& key, int64_t amount, Duration timeout) = 0;
  virtual std::string DoCompareAndSet(const std::string& key, const std::string& expected,
                                      const std::string& desired, Duration timeout) = 0;
  virtual void DoWait(const std::vector<std::string>& keys, Duration timeout) = 0;
  virtual bool DoCheck(const std::vector<std::string>& keys, Duration timeout) = 0;
  virtual bool DoDelete(const std::string& key, Duration timeout) = 0;

  const Duration timeout_;
};

// Throws TimeoutError: "keys 'a', 'b' were not set within 2 s".
[[noreturn]] void ThrowMissingKeys(const std::vector<std::string>& missing, Duration timeout);

}  // namespace ddp
