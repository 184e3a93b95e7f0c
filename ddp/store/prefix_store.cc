#include "ddp/store/prefix_store.h"

#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

std::shared_ptr<Store> NotNull(std::shared_ptr<Store> store) {
  if (store == nullptr) throw std::invalid_argument("PrefixStore needs a store, got null");
  return store;
}

}  // namespace

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : Store(NotNull(store)->timeout()), prefix_(std::move(prefix)), store_(std::move(store)) {}

void PrefixStore::DoSet(const std::string& key, const std::string& value, Duration timeout) {
  store_->Set(prefix_ + key, value, timeout);
}

std::string PrefixStore::DoGet(const std::string& key, Duration timeout) {
  return store_->Get(prefix_ + key, timeout);
}

int64_t PrefixStore::DoAdd(const std::string& key, int64_t amount, Duration timeout) {
  return store_->Add(prefix_ + key, amount, timeout);
}

std::string PrefixStore::DoCompareAndSet(const std::string& key, const std::string& expected,
                                         const std::string& desired, Duration timeout) {
  return store_->CompareAndSet(prefix_ + key, expected, desired, timeout);
}

void PrefixStore::DoWait(const std::vector<std::string>& keys, Duration timeout) {
  store_->Wait(WithPrefix(keys), timeout);
}

bool PrefixStore::DoCheck(const std::vector<std::string>& keys, Duration timeout) {
  return store_->Check(WithPrefix(keys), timeout);
}

bool PrefixStore::DoDelete(const std::string& key, Duration timeout) {
  return store_->Delete(prefix_ + key, timeout);
}

std::vector<std::string> PrefixStore::WithPrefix(const std::vector<std::string>& keys) const {
  std::vector<std::string> result;
  result.reserve(keys.size());
  for (const std::string& key : keys) result.push_back(prefix_ + key);
  return result;
}

}  // namespace ddp
