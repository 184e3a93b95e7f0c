#include "ddp/store/tcp_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ddp/store/socket.h"

namespace ddp {
namespace {

// A server that has promised to answer at a deadline gets a little more time to do so.
Duration WithGrace(Duration timeout) {
  return timeout + timeout / 20 + std::chrono::milliseconds(20);
}

}  // namespace

TcpStore::TcpStore(const std::string& host, int port, const TcpStoreOptions& options)
    : Store(options.timeout), address_{host, port, options.token} {
  const Deadline deadline = DeadlineAfter(options.connect_timeout.value_or(timeout()));
  auto connection = std::make_unique<StoreConnection>(ConnectToStore(address_, deadline));
  local_address_ = connection->LocalAddress();
  GiveBack(std::move(connection));
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
    std::unique_ptr<StoreConnection> connection = TakeConnection(deadline);
    answer = connection->Exchange(bytes, deadline);
    GiveBack(std::move(connection));
  } catch (const TimeoutError&) {
    throw TimeoutError(fmt::format("the store at {} didn't answer within {}",
                                   FormatAddress(address_.host, address_.port),
                                   FormatSeconds(timeout)));
  } catch (const std::runtime_error& error) {
    throw CollectiveError(fmt::format("lost the store at {}: {}",
                                      FormatAddress(address_.host, address_.port), error.what()));
  }
  if (answer.kind == Message::Kind::kInvalid) throw std::invalid_argument(answer.strings.at(0));
  return answer;
}

std::unique_ptr<StoreConnection> TcpStore::TakeConnection(Deadline deadline) {
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<StoreConnection> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  return std::make_unique<StoreConnection>(Connect(address_.host, address_.port, deadline),
                                           address_.token, deadline);
}

void TcpStore::GiveBack(std::unique_ptr<StoreConnection> connection) {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
}

}  // namespace ddp
