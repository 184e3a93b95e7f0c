#include "ddp/store/hash_store.h"

namespace ddp {

void HashStore::DoSet(const std::string& key, const std::string& value, Duration) {
  std::lock_guard lock(mutex_);
  table_.Set(key, value);
  changed_.notify_all();
}

std::string HashStore::DoGet(const std::string& key, Duration timeout) {
  const auto lock = AwaitKeys({key}, timeout);
  return *table_.Find(key);
}

int64_t HashStore::DoAdd(const std::string& key, int64_t amount, Duration) {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
  return table_.Add(key, amount);
}

std::string HashStore::DoCompareAndSet(const std::string& key, const std::string& expected,
                                       const std::string& desired, Duration) {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
  return table_.CompareAndSet(key, expected, desired);
}

void HashStore::DoWait(const std::vector<std::string>& keys, Duration timeout) {
  AwaitKeys(keys, timeout);
}

bool HashStore::DoCheck(const std::vector<std::string>& keys, Duration) {
  std::lock_guard lock(mutex_);
  return table_.HasAll(keys);
}

bool HashStore::DoDelete(const std::string& key, Duration) {
  std::lock_guard lock(mutex_);
  return table_.Delete(key);
}

std::unique_lock<std::mutex> HashStore::AwaitKeys(const std::vector<std::string>& keys,
                                                  Duration timeout) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, DeadlineAfter(timeout), [&] { return table_.HasAll(keys); })) {
    ThrowMissingKeys(table_.Missing(keys), timeout);
  }
  return lock;
}

}  // namespace ddp
