// HashStore: a store in this process's memory, for ranks that are threads.
//
//   auto store = std::make_shared<ddp::HashStore>();   // shared by all ranks
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "ddp/store/store.h"
#include "ddp/store/table.h"

namespace ddp {

class HashStore : public Store {
 public:
  explicit HashStore(Duration timeout = kDefaultTimeout) : Store(timeout) {}

  std::string local_address() const override { return "127.0.0.1"; }

 private:
  void DoSet(const std::string& key, const std::string& value, Duration timeout) override;
  std::string DoGet(const std::string& key, Duration timeout) override;
  int64_t DoAdd(const std::string& key, int64_t amount, Duration timeout) override;
  std::string DoCompareAndSet(const std::string& key, const std::string& expected,
                              const std::string& desired, Duration timeout) override;
  void DoWait(const std::vector<std::string>& keys, Duration timeout) override;
  bool DoCheck(const std::vector<std::string>& keys, Duration timeout) override;
  bool DoDelete(const std::string& key, Duration timeout) override;

  // Returns with mutex_ held and all keys there.
  std::unique_lock<std::mutex> AwaitKeys(const std::vector<std::string>& keys, Duration timeout);

  std::mutex mutex_;
  std::condition_variable changed_;
  Table table_;  // guarded by mutex_
};

}  // namespace ddp
