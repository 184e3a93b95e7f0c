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
  // Clients must bring the same (TcpStoreOptions).
  std::string token = "";
};

class TcpStoreServer {
 public:
  // Listens when it returns. Throws std::system_error: "port 29500 is in use; ...".
  explicit TcpStoreServer(const TcpStoreServerOptions& options = {});
  // Disconnects all clients.
  ~TcpStoreServer();

  int port() const;

  // Forgets all keys and turns away all clients, those that wait with an error that says why: who
  // brings `token` may come. For the next generation of a job's ranks; any thread may call it.
  void StartOver(const std::string& token);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
