// PrefixStore: a part of another store, so that several users of one store don't meet each other's
// keys.
//
//   auto group_store = std::make_shared<ddp::PrefixStore>("group/1/", store);
//   group_store->Set("address", mine);   // sets "group/1/address" in `store`
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/store/store.h"

namespace ddp {

class PrefixStore : public Store {
 public:
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);

  std::string local_address() const override { return store_->local_address(); }

 private:
  void DoSet(const std::string& key, const std::string& value, Duration timeout) override;
  std::string DoGet(const std::string& key, Duration timeout) override;
  int64_t DoAdd(const std::string& key, int64_t amount, Duration timeout) override;
  std::string DoCompareAndSet(const std::string& key, const std::string& expected,
                              const std::string& desired, Duration timeout) override;
  void DoWait(const std::vector<std::string>& keys, Duration timeout) override;
  bool DoCheck(const std::vector<std::string>& keys, Duration timeout) override;
  bool DoDelete(const std::string& key, Duration timeout) override;

  std::vector<std::string> WithPrefix(const std::vector<std::string>& keys) const;

  const std::string prefix_;
  const std::shared_ptr<Store> store_;
};

}  // namespace ddp
