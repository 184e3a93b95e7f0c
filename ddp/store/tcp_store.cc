#include "ddp/store/tcp_store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "ddp/store/socket.h"

namespace ddp {
namespace {

// A server that has promised to answer at a deadline gets a little more time to do so.
Duration WithGrace(Duration timeout) {
  return timeout + timeout / 20 + std::chrono::milliseconds(20);
}

}  // namespace

// One connection, on which one request at a time is under way.
class TcpStore::Connection {
 public:
  Connection(FileDescriptor socket, Deadline deadline) : socket_(std::move(socket)) {
    KeepAlive(socket_.get(), kDefaultHeartbeatTimeout);
    Send(kClientHello, deadline);
    while (inbox_.size() < kServerHello.size()) Receive(deadline);
    if (!inbox_.starts_with(kServerHello)) {
      throw CollectiveError("what answers there is not a store of this version");
    }
    inbox_.erase(0, kServerHello.size());
  }

  Message Exchange(const std::string& request, Deadline deadline) {
    Send(request, deadline);
    Message answer;
    size_t used = 0;
    while ((used = Decode(inbox_, &answer)) == 0) Receive(deadline);
    inbox_.erase(0, used);
    return answer;
  }

  std::string LocalAddress() const { return LocalHost(socket_.get()); }

 private:
  void Send(std::string_view bytes, Deadline deadline) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent >= 0) {
        bytes.remove_prefix(sent);
      } else {
        AwaitRetry(POLLOUT, deadline);
      }
    }
  }

  void Receive(Deadline deadline) {
    char bytes[16 << 10];
    const ssize_t received = recv(socket_.get(), bytes, sizeof bytes, 0);
    if (received > 0) {
      inbox_.append(bytes, received);
    } else if (received == 0) {
      throw CollectiveError("connection closed");
    } else {
      AwaitRetry(POLLIN, deadline);
    }
  }

  // After a failed call: returns when it is worth another try.
  void AwaitRetry(short events, Deadline deadline) {
    if (errno == EINTR) return;
    if (errno != EAGAIN) throw CollectiveError(std::generic_category().message(errno));
    if (!WaitUntilReady(socket_.get(), events, deadline)) throw TimeoutError("no answer");
  }

  const FileDescriptor socket_;
  std::string inbox_;
};

TcpStore::TcpStore(const std::string& host, int port, const TcpStoreOptions& options)
    : Store(options.timeout), host_(host), port_(port) {
  const Deadline deadline = DeadlineAfter(timeout());
  FileDescriptor socket = ConnectPatiently(host, port, deadline);
  try {
    auto connection = std::make_unique<Connection>(std::move(socket), deadline);
    local_address_ = connection->LocalAddress();
    GiveBack(std::move(connection));
  } catch (const TimeoutError&) {
    throw TimeoutError(fmt::format("{} accepts connections, but no store answered within {}",
                                   FormatAddress(host, port), FormatSeconds(timeout())));
  } catch (const CollectiveError& error) {
    throw CollectiveError(
        fmt::format("no store at {}: {}", FormatAddress(host, port), error.what()));
  }
}

TcpStore::~TcpStore() = default;

void TcpStore::DoSet(const std::string& key, const std::string& value, Duration timeout) {
  Call({.kind = Message::Kind::kSet, .strings = {key, value}}, timeout);
}

std::string TcpStore::DoGet(const std::string& key, Duration timeout) {
  return CallAndWait({.kind = Message::Kind::kGet, .strings = {key}}, timeout).strings.at(0);
}

int64_t TcpStore::DoAdd(const std::string& key, int64_t amount, Duration timeout) {
  return Call({.kind = Message::Kind::kAdd, .number = amount, .strings = {key}}, timeout).number;
}

std::string TcpStore::DoCompareAndSet(const std::string& key, const std::string& expected,
                                      const std::string& desired, Duration timeout) {
  return Call({.kind = Message::Kind::kCompareAndSet, .strings = {key, expected, desired}}, timeout)
      .strings.at(0);
}

void TcpStore::DoWait(const std::vector<std::string>& keys, Duration timeout) {
  CallAndWait({.kind = Message::Kind::kWait, .strings = keys}, timeout);
}

bool TcpStore::DoCheck(const std::vector<std::string>& keys, Duration timeout) {
  return Call({.kind = Message::Kind::kCheck, .strings = keys}, timeout).number == 1;
}

bool TcpStore::DoDelete(const std::string& key, Duration timeout) {
  return Call({.kind = Message::Kind::kDelete, .strings = {key}}, timeout).number == 1;
}

Message TcpStore::CallAndWait(Message request, Duration timeout) {
  timeout = ClampTimeout(timeout);
  request.number = timeout.count();
  Message answer = Call(request, WithGrace(timeout));
  if (answer.kind == Message::Kind::kTimedOut) ThrowMissingKeys(answer.strings, timeout);
  return answer;
}

Message TcpStore::Call(const Message& request, Duration timeout) {
  const std::string bytes = Encode(request);
  const Deadline deadline = DeadlineAfter(timeout);
  Message answer;
  try {
    std::unique_ptr<Connection> connection = TakeConnection(deadline);
    answer = connection->Exchange(bytes, deadline);
    GiveBack(std::move(connection));
  } catch (const TimeoutError&) {
    throw TimeoutError(fmt::format("the store at {} didn't answer within {}",
                                   FormatAddress(host_, port_), FormatSeconds(timeout)));
  } catch (const std::runtime_error& error) {
    throw CollectiveError(
        fmt::format("lost the store at {}: {}", FormatAddress(host_, port_), error.what()));
  }
  if (answer.kind == Message::Kind::kInvalid) throw std::invalid_argument(answer.strings.at(0));
  return answer;
}

std::unique_ptr<TcpStore::Connection> TcpStore::TakeConnection(Deadline deadline) {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return std::make_unique<Connection>(Connect(host_, port_, deadline), deadline);
}

void TcpStore::GiveBack(std::unique_ptr<Connection> connection) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
}

}  // namespace ddp
