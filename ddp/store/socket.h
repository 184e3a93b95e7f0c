// TCP sockets with deadlines: non-blocking, closed on exec, IPv4 and IPv6. Errors are
// std::system_error with the address, deadlines TimeoutError.
#pragma once

#include <string>

#include "ddp/duration.h"
#include "ddp/file_descriptor.h"

namespace ddp {

// A socket that listens on `port` (0: any free one) of `host` ("": all interfaces). A port that is
// taken is a std::system_error that says so.
FileDescriptor Listen(const std::string& host, int port);

// Makes an inherited listening socket like one of Listen's.
FileDescriptor AdoptListener(int fd);

// Accepts a connection; not is_open() when there is none (or no longer).
FileDescriptor Accept(int listener);

// Connects to the first address of `host` that answers.
FileDescriptor Connect(const std::string& host, int port, Deadline deadline);

// The same, again and again until it works or the deadline comes, as the other side may not have
// started yet. Only a host that doesn't exist fails at once.
FileDescriptor ConnectPatiently(const std::string& host, int port, Deadline deadline);

// A descriptor that becomes readable when a number is written to it (eventfd).
FileDescriptor OpenEvent();

// The connection breaks when the other machine, or the way to it, is silent for `timeout`: its
// kernel answers even where its process is stopped.
void KeepAlive(int socket, Duration timeout);

int LocalPort(int socket);
// The numeric address of this end.
std::string LocalHost(int socket);

// This machine's name.
std::string HostName();

// Whether a name or address is this machine's own, which others can't reach.
bool IsLoopback(const std::string& host);

// A port of `host` that was free a moment ago, for programs that must be told one. Whoever can
// listens at port 0 instead.
int FreePort(const std::string& host);

// "10.0.0.1:29500", "[::1]:29500".
std::string FormatAddress(const std::string& host, int port);

struct HostAndPort {
  std::string host;
  int port = 0;
};

// The same backwards; the port may be 0. Throws std::invalid_argument with the text.
HostAndPort ParseAddress(const std::string& text);

// Waits until `events` (POLLIN, POLLOUT) or an error; false when the deadline came first.
bool WaitUntilReady(int fd, short events, Deadline deadline);

[[noreturn]] void ThrowSystemError(int error, const std::string& what);

}  // namespace ddp
