// Store: a small key-value service where the ranks of a job meet: addresses, agreements, failures.
//
//   TcpStoreServer server({.port = 0});                           // one process hosts it
//   TcpStore store("127.0.0.1", server.port(), {.timeout = 30s}); // every rank connects
//   store.Set("address/3", mine);
//   std::string theirs = store.Get("address/5");                  // waits until it is there
//
// Values are bytes. Get and Wait wait for keys, at most the store's timeout or the one given, then
// throw TimeoutError with the keys that are missing. A server that is gone throws CollectiveError.
// All functions may be called by several threads at once; a waiting one doesn't hold up the others.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

using Duration = std::chrono::nanoseconds;

// Every wait has a deadline; this is it unless something else was asked for.
inline constexpr Duration kDefaultTimeout = std::chrono::minutes(10);

class Store {
 public:
  virtual ~Store() = default;

  virtual void Set(const std::string& key, const std::string& value) = 0;
  // The value, as soon as there is one.
  virtual std::string Get(const std::string& key, Duration timeout) = 0;
  // Adds `amount` to a decimal number (0 when the key is missing) and returns the sum.
  virtual int64_t Add(const std::string& key, int64_t amount) = 0;
  // Sets the value to `desired` if it is `expected` ("" also stands for a missing key). Returns
  // the value after that: `desired` means it was set, or was there already.
  virtual std::string CompareAndSet(const std::string& key, const std::string& expected,
                                    const std::string& desired) = 0;
  // Returns when all keys are there.
  virtual void Wait(const std::vector<std::string>& keys, Duration timeout) = 0;
  // Whether all keys are there now.
  virtual bool Check(const std::vector<std::string>& keys) = 0;
  // Returns whether the key was there.
  virtual bool Delete(const std::string& key) = 0;

  std::string Get(const std::string& key) { return Get(key, timeout()); }
  void Wait(const std::vector<std::string>& keys) { Wait(keys, timeout()); }

  Duration timeout() const { return timeout_; }

 protected:
  explicit Store(Duration timeout) : timeout_(timeout) {}

 private:
  const Duration timeout_;
};

}  // namespace ddp
