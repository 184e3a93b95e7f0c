// The keys and values behind every store, and what the operations mean. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace ddp {

class Table {
 public:
  void Set(const std::string& key, std::string value);
  // Null when the key is missing; valid until the next change.
  const std::string* Find(const std::string& key) const;
  int64_t Add(const std::string& key, int64_t amount);
  std::string CompareAndSet(const std::string& key, const std::string& expected,
                            const std::string& desired);
  bool Delete(const std::string& key);
  void Clear() { values_.clear(); }

  // Those of `keys` that are missing, in order.
  std::vector<std::string> Missing(const std::vector<std::string>& keys) const;
  bool HasAll(const std::vector<std::string>& keys) const;

 private:
  std::unordered_map<std::string, std::string> values_;
};

}  // namespace ddp
