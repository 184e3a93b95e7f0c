#include "ddp/store/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "ddp/errors.h"

namespace ddp {
namespace {

constexpr int kBacklog = 1024;
constexpr Duration kFirstPause = std::chrono::milliseconds(1);
constexpr Duration kLongestPause = std::chrono::milliseconds(100);
// Of a connection that will be tried again: an address that doesn't answer at all mustn't use up
// the time of those after it.
constexpr Duration kLongestAttempt = std::chrono::seconds(3);

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof value);
}

// Null when the name can't be resolved just now.
Addresses Resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_flags = flags | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(),
                                &hints, &list);
  if (error == EAI_AGAIN) return nullptr;
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? std::generic_category().message(errno)
                                                : std::string(gai_strerror(error));
    throw std::system_error(std::make_error_code(std::errc::address_not_available),
                            fmt::format("can't resolve host '{}': {}", host, why));
  }
  return Addresses(list);
}

FileDescriptor OpenSocket(const addrinfo& address) {
  return FileDescriptor(socket(
      address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

// Returns 0 or an errno.
int TryListen(const addrinfo& address, FileDescriptor* listener) {
  FileDescriptor fd = OpenSocket(address);
  if (!fd.is_open()) return errno;
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ai_family == AF_INET6) SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0) return errno;
  if (listen(fd.get(), kBacklog) != 0) return errno;
  *listener = std::move(fd);
  return 0;
}

// A port of this machine that nobody listens on can be given to the very socket that tries it.
bool IsConnectedToItself(int fd) {
  sockaddr_storage local{};
  sockaddr_storage peer{};
  socklen_t local_size = sizeof local;
  socklen_t peer_size = sizeof peer;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
         local_size == peer_size && std::memcmp(&local, &peer, local_size) == 0;
}

// Returns 0 or an errno.
int TryConnect(const addrinfo& address, Deadline deadline, FileDescriptor* connection) {
  FileDescriptor fd = OpenSocket(address);
  if (!fd.is_open()) return errno;
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (!WaitUntilReady(fd.get(), POLLOUT, deadline)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return error;
  }
  if (IsConnectedToItself(fd.get())) return ECONNREFUSED;
  SetOption(fd.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  *connection = std::move(fd);
  return 0;
}

int TryConnectAny(const addrinfo* addresses, Deadline deadline, Duration longest_attempt,
                  FileDescriptor* connection) {
  int error = 0;
  for (const addrinfo* address = addresses; address != nullptr; address = address->ai_next) {
    const Deadline attempt_deadline = std::min(deadline, DeadlineAfter(longest_attempt));
    error = TryConnect(*address, attempt_deadline, connection);
    if (error == 0) break;
  }
  return error;
}

FileDescriptor ConnectOnce(const std::string& host, int port, Deadline deadline,
                           Duration longest_attempt) {
  FileDescriptor connection;
  const Addresses addresses = Resolve(host, port, 0);
  const int error = addresses == nullptr
                        ? EHOSTUNREACH
                        : TryConnectAny(addresses.get(), deadline, longest_attempt, &connection);
  if (error != 0) ThrowSystemError(error, "no connection to " + FormatAddress(host, port));
  return connection;
}

struct Name {
  std::string host;
  int port = 0;
};

Name LocalName(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ThrowSystemError(errno, fmt::format("descriptor {} is no usable socket", socket));
  }
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, std::atoi(port)};
}

}  // namespace

FileDescriptor Listen(const std::string& host, int port) {
  FileDescriptor listener;
  int error = EADDRNOTAVAIL;
  // With "" the IPv6 wildcard comes first if asked for; it takes IPv4 connections as well.
  for (const char* wildcard : {"::", "0.0.0.0"}) {
    const Addresses addresses = Resolve(host.empty() ? wildcard : host, port, AI_PASSIVE);
    if (addresses != nullptr) error = TryListen(*addresses, &listener);
    if (error == 0) return listener;
    if (error == EADDRINUSE || !host.empty()) break;
  }
  if (error == EADDRINUSE) {
    ThrowSystemError(
        error, fmt::format("port {} is in use; choose another one, or 0 for any free port", port));
  }
  ThrowSystemError(error, fmt::format("can't listen on {}", FormatAddress(host, port)));
}

FileDescriptor AdoptListener(int fd) {
  FileDescriptor listener(fd);
  int listening = 0;
  socklen_t size = sizeof listening;
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0) {
    ThrowSystemError(ENOTSOCK, fmt::format("descriptor {} is no listening socket", fd));
  }
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return listener;
}

FileDescriptor Accept(int listener) {
  FileDescriptor connection(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection.is_open()) SetOption(connection.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  return connection;
}

FileDescriptor Connect(const std::string& host, int port, Deadline deadline) {
  return ConnectOnce(host, port, deadline, TimeLeft(deadline));
}

FileDescriptor ConnectPatiently(const std::string& host, int port, Deadline deadline) {
  const auto start = Clock::now();
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    try {
      return ConnectOnce(host, port, deadline, kLongestAttempt);
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::address_not_available) throw;
      if (TimeLeft(deadline) == Duration::zero()) {
        throw TimeoutError(
            fmt::format("gave up after {}: {}", FormatSeconds(Clock::now() - start), error.what()));
      }
    }
    std::this_thread::sleep_for(std::min(pause, TimeLeft(deadline)));
  }
}

FileDescriptor OpenEvent() {
  FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.is_open()) ThrowSystemError(errno, "can't make an event");
  return event;
}

void KeepAlive(int socket, Duration timeout) {
  // Silence: after a quarter of the time it is asked three times, a quarter each.
  constexpr int kQuestions = 3;
  using std::chrono::ceil, std::chrono::seconds, std::chrono::milliseconds;
  const Duration limit = ClampTimeout(timeout);
  const int pause = std::max<int>(1, static_cast<int>(ceil<seconds>(limit).count() / 4));
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, pause);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, pause);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, kQuestions);
  // The same for bytes that nobody acknowledges.
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(std::min<int64_t>(ceil<milliseconds>(limit).count(), 1 << 30)));
}

int FreePort(const std::string& host) { return LocalPort(Listen(host, 0).get()); }

int LocalPort(int socket) { return LocalName(socket).port; }

std::string LocalHost(int socket) {
  std::string host = LocalName(socket).host;
  // An IPv4 address in IPv6 clothes is one that everybody knows without them.
  constexpr std::string_view kMapped = "::ffff:";
  return host.starts_with(kMapped) ? host.substr(kMapped.size()) : host;
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

bool IsLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string FormatAddress(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

HostAndPort ParseAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon);
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  int port = -1;
  if (colon != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error != std::errc() || rest != end) port = -1;
  }
  const bool is_bare_ipv6 = !has_brackets && host.find(':') != std::string::npos;
  if (host.empty() || is_bare_ipv6 || port < 0 || port > 65535) {
    throw std::invalid_argument(fmt::format(
        "'{}': expected HOST:PORT, with an IPv6 address in brackets: [::1]:29500", text));
  }
  return {host, port};
}

bool WaitUntilReady(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&entry, 1, MillisecondsLeft(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) ThrowSystemError(errno, "poll");
    if (TimeLeft(deadline) == Duration::zero()) return false;
  }
}

void ThrowSystemError(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace ddp
