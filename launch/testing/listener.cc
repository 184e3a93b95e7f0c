#include "launch/testing/listener.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

namespace launch {

Listener::Listener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket_.get(), any, size) != 0 || listen(socket_.get(), 1) != 0 ||
      getsockname(socket_.get(), any, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "listen on loopback");
  }
  port_ = ntohs(address.sin_port);
}

}  // namespace launch
