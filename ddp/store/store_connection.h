// StoreConnection: one connection to a TcpStoreServer, on which one request at a time is under way.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ddp/duration.h"
#include "ddp/file_descriptor.h"
#include "ddp/store/message.h"

namespace ddp {

// Where a store is, and what opens it.
struct StoreAddress {
  std::string host;
  int port = 0;
  std::string token = "";
};

// Errors are CollectiveError, TimeoutError at the deadline; their texts don't name the address.
class StoreConnection {
 public:
  // Greets the server over a socket that is connected. `silence`: after how long without a sign of
  // life from the server's machine the connection breaks.
  StoreConnection(FileDescriptor socket, const std::string& token, Deadline deadline,
                  Duration silence = kDefaultHeartbeatTimeout);

  Message Exchange(std::string_view request, Deadline deadline);

  // The same in parts, for who polls fd() meanwhile.
  void Send(std::string_view bytes, Deadline deadline);
  Message Receive(Deadline deadline);
  // The next answer if it is there; never waits.
  std::optional<Message> TryReceive();

  int fd() const { return socket_.get(); }
  std::string LocalAddress() const;

 private:
  // Reads what there is; false when there is nothing now.
  bool ReadSome();
  std::optional<Message> TakeMessage();
  void Await(short events, Deadline deadline) const;

  FileDescriptor socket_;
  std::string inbox_;
};

// The same from the beginning, with errors that name the address: "no store at 10.0.0.1:29500:
// ...". Tries again while nobody answers, until the deadline.
StoreConnection ConnectToStore(const StoreAddress& address, Deadline deadline,
                               Duration silence = kDefaultHeartbeatTimeout);

}  // namespace ddp
