#include "ddp/store/store_connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "ddp/errors.h"
#include "ddp/store/socket.h"

namespace ddp {

StoreConnection::StoreConnection(FileDescriptor socket, const std::string& token, Deadline deadline,
                                 Duration silence)
    : socket_(std::move(socket)) {
  KeepAlive(socket_.get(), silence);
  Send(Greeting(token), deadline);
  while (inbox_.size() < kServerHello.size()) {
    if (!ReadSome()) Await(POLLIN, deadline);
  }
  if (!inbox_.starts_with(kServerHello)) {
    throw CollectiveError("what answers there is not a store of this version");
  }
  inbox_.erase(0, kServerHello.size());
  Receive(deadline);
}

Message StoreConnection::Exchange(std::string_view request, Deadline deadline) {
  Send(request, deadline);
  return Receive(deadline);
}

void StoreConnection::Send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(sent);
    } else if (errno == EAGAIN) {
      Await(POLLOUT, deadline);
    } else if (errno != EINTR) {
      throw CollectiveError(std::generic_category().message(errno));
    }
  }
}

Message StoreConnection::Receive(Deadline deadline) {
  for (;;) {
    if (std::optional<Message> message = TakeMessage()) return *std::move(message);
    if (!ReadSome()) Await(POLLIN, deadline);
  }
}

std::optional<Message> StoreConnection::TryReceive() {
  while (ReadSome()) {
    if (std::optional<Message> message = TakeMessage()) return message;
  }
  return TakeMessage();
}

bool StoreConnection::ReadSome() {
  char bytes[16 << 10];
  const ssize_t received = recv(socket_.get(), bytes, sizeof bytes, 0);
  if (received > 0) {
    inbox_.append(bytes, received);
    return true;
  }
  if (received == 0) throw CollectiveError("connection closed");
  if (errno != EAGAIN && errno != EINTR) {
    throw CollectiveError(std::generic_category().message(errno));
  }
  return false;
}

std::optional<Message> StoreConnection::TakeMessage() {
  Message message;
  const size_t used = Decode(inbox_, &message);
  if (used == 0) return std::nullopt;
  inbox_.erase(0, used);
  if (message.kind == Message::Kind::kRefused) throw CollectiveError(message.strings.at(0));
  return message;
}

void StoreConnection::Await(short events, Deadline deadline) const {
  if (!WaitUntilReady(socket_.get(), events, deadline)) throw TimeoutError("no answer");
}

std::string StoreConnection::LocalAddress() const { return LocalHost(socket_.get()); }

StoreConnection ConnectToStore(const StoreAddress& address, Deadline deadline, Duration silence) {
  const auto start = Clock::now();
  FileDescriptor socket = ConnectPatiently(address.host, address.port, deadline);
  const std::string name = FormatAddress(address.host, address.port);
  try {
    return StoreConnection(std::move(socket), address.token, deadline, silence);
  } catch (const TimeoutError&) {
    throw TimeoutError(fmt::format("{} accepts connections, but no store answered within {}", name,
                                   FormatSeconds(Clock::now() - start)));
  } catch (const CollectiveError& error) {
    throw CollectiveError(fmt::format("no store at {}: {}", name, error.what()));
  }
}

}  // namespace ddp
