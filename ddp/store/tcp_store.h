// TcpStore: a store that a TcpStoreServer holds, anywhere on the network.
//
//   TcpStore store("node1", 29500, {.timeout = 30s});
//
// Waits are the server's: nobody polls. Each thread that waits has a connection of its own; the
// others share those that are free.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ddp/store/message.h"
#include "ddp/store/store.h"
#include "ddp/store/store_connection.h"

namespace ddp {

struct TcpStoreOptions {
  // Limit of each operation, and of the first connection unless that has its own.
  Duration timeout = kDefaultTimeout;
  std::optional<Duration> connect_timeout = std::nullopt;
  // The server's must be the same: that of the job, so that two jobs never meet at one store.
  std::string token = "";
};

class TcpStore : public Store {
 public:
  // Connects; tries again while nobody answers, as the server may start later. Throws TimeoutError
  // with the address, std::system_error for a host that doesn't exist, CollectiveError when
  // something other than a store answers, or the store of another job or generation.
  TcpStore(const std::string& host, int port, const TcpStoreOptions& options = {});
  ~TcpStore() override;

  std::string local_address() const override { return local_address_; }

 private:
  void DoSet(const std::string& key, const std::string& value, Duration timeout) override;
  std::string DoGet(const std::string& key, Duration timeout) override;
  int64_t DoAdd(const std::string& key, int64_t amount, Duration timeout) override;
  std::string DoCompareAndSet(const std::string& key, const std::string& expected,
                              const std::string& desired, Duration timeout) override;
  void DoWait(const std::vector<std::string>& keys, Duration timeout) override;
  bool DoCheck(const std::vector<std::string>& keys, Duration timeout) override;
  bool DoDelete(const std::string& key, Duration timeout) override;

  // Sends a request and returns the answer; throws what an answer says went wrong.
  Message Call(const Message& request, Duration timeout);
  // The same for a request whose deadline is the server's to keep.
  Message CallAndWait(Message request, Duration timeout);
  std::unique_ptr<StoreConnection> TakeConnection(Deadline deadline);
  void GiveBack(std::unique_ptr<StoreConnection> connection);

  const StoreAddress address_;
  std::string local_address_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StoreConnection>> idle_;  // guarded by mutex_
};

}  // namespace ddp
