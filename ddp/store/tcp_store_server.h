// TcpStoreServer: holds the keys and values of the TcpStores that connect to it, until it ends.
//
//   TcpStoreServer server({.port = 0});      // any free port
//   Tell(server.port());
//
// One thread serves all clients. Strangers (scanners, half-open connections, other versions) are
// turned away without disturbing the others.
#pragma once

#include <memory>
#include <string>

namespace ddp {

struct TcpStoreServerOptions {
  // The interface to listen on, as a name or address; "": all of them, IPv4 and IPv6.
  std::string host = "";
  // 0: any free port.
  int port = 0;
  // A socket that listens already, in place of the above; the server closes it.
  int listening_fd = -1;
};

class TcpStoreServer {
 public:
  // Listens when it returns. Throws std::system_error: "port 29500 is in use; ...".
  explicit TcpStoreServer(const TcpStoreServerOptions& options = {});
  // Disconnects all clients.
  ~TcpStoreServer();

  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
