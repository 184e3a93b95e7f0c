#include "ddp/collectives/gloo/connector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>
#include <sstream>
#include <system_error>

#include "ddp/collectives/store_values.h"
#include "ddp/collectives/trouble.h"
#include "ddp/errors.h"
#include "ddp/store/socket.h"

namespace ddp {
namespace {

// What a rank says to a caller.
constexpr char kTaken = 'y';
constexpr char kCallingYou = 'n';

// Before why a rank can't be called, in place of where.
constexpr char kUnreachable = '-';

// Callers that may be silent at the same time, beside the peers.
constexpr int kMaxStrangers = 64;
// How often a wait that nothing else can interrupt looks whether it should end.
constexpr Duration kStoreSlice = std::chrono::milliseconds(100);
constexpr Duration kConnectSlice = std::chrono::seconds(1);

std::string KeyOf(int rank) { return fmt::format("address/{}", rank); }

// Returns false when the deadline came first. Throws Stopped when `interrupt` is readable.
bool AwaitReadable(int fd, int interrupt, Deadline deadline) {
  pollfd fds[] = {{interrupt, POLLIN, 0}, {fd, POLLIN, 0}};
  while (true) {
    const int num_ready = poll(fds, std::size(fds), MillisecondsLeft(deadline));
    if (num_ready < 0 && errno == EINTR) continue;
    if (fds[0].revents != 0) throw Stopped();
    return num_ready > 0;
  }
}

void ThrowIfStopped(int interrupt) {
  pollfd fd{interrupt, POLLIN, 0};
  if (poll(&fd, 1, 0) > 0) throw Stopped();
}

bool IsUnreachable(const std::error_code& code) {
  return code == std::errc::connection_refused || code == std::errc::connection_reset ||
         code == std::errc::host_unreachable || code == std::errc::network_unreachable;
}

FileDescriptor ConnectTo(int peer, const std::string& host, int port, int interrupt,
                         Deadline deadline) {
  while (true) {
    try {
      return Connect(host, port, std::min(deadline, DeadlineAfter(kConnectSlice)));
    } catch (const std::system_error& error) {
      if (IsUnreachable(error.code())) {
        throw PeerTrouble(PeerTrouble::kLost, {peer}, error.what());
      }
      if (error.code() != std::errc::timed_out) throw;
    }
    ThrowIfStopped(interrupt);
    if (Clock::now() >= deadline) throw PeerTrouble(PeerTrouble::kTimedOut, {peer});
  }
}

void SetLowWaterMark(int fd, int num_bytes) {
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &num_bytes, sizeof num_bytes);
}

}  // namespace

Connector::Connector(const Meeting& meeting, const std::string& address,
                     gloo::transport::tcp::Device* device, LoopTasks* loop, Admit admit,
                     Connected connected)
    : store_(meeting.store),
      rank_(meeting.rank()),
      size_(meeting.size()),
      device_(device),
      loop_(loop),
      admit_(std::move(admit)),
      connected_(std::move(connected)),
      accept_all_([this] { AcceptAll(); }),
      listener_(Listen(address, 0)) {
  std::random_device random;
  std::ranges::generate(secret_, [&] { return static_cast<uint8_t>(random()); });
  store_->Set(KeyOf(rank_), Encode({address, LocalPort(listener_.get()), secret_}),
              TimeLeft(meeting.deadline));
  device_->registerDescriptor(listener_.get(), EPOLLIN, &accept_all_);
}

void Connector::TellUnreachable(const Meeting& meeting, const std::string& reason) noexcept {
  try {
    meeting.store->Set(KeyOf(meeting.rank()), kUnreachable + reason, std::chrono::seconds(1));
  } catch (const std::exception&) {
    // Without a store there is no way to tell them.
  }
}

std::string Connector::Encode(const Entry& entry) {
  return fmt::format("{} {} {:02x}", entry.host, entry.port, fmt::join(entry.secret, " "));
}

Connector::Entry Connector::Decode(const std::string& key, const std::string& value) {
  std::istringstream words(value);
  Entry entry;
  std::string port;
  words >> entry.host >> port;
  entry.port = ParseNumber(port, 0xffff).value_or(0);
  if (entry.port == 0) ThrowIllegible(key, value);
  for (uint8_t& byte : entry.secret) {
    std::string digits;
    words >> digits;
    const std::optional<int> number = ParseNumber(digits, 0xff, 16);
    if (!number) ThrowIllegible(key, value);
    byte = static_cast<uint8_t>(*number);
  }
  if (std::string more; words >> more) ThrowIllegible(key, value);
  return entry;
}

Connector::Entry Connector::LookUp(int peer, int interrupt, Deadline deadline) {
  while (true) {
    ThrowIfStopped(interrupt);
    try {
      const std::string text = store_->Get(KeyOf(peer), std::min(TimeLeft(deadline), kStoreSlice));
      if (!text.starts_with(kUnreachable)) return Decode(KeyOf(peer), text);
      throw PeerTrouble(PeerTrouble::kLost, {peer}, text.substr(1));
    } catch (const TimeoutError&) {
      if (Clock::now() >= deadline) throw PeerTrouble(PeerTrouble::kTimedOut, {peer});
    }
  }
}

FileDescriptor Connector::Call(int peer, int interrupt, Deadline deadline) {
  const Entry entry = LookUp(peer, interrupt, deadline);
  FileDescriptor connection = ConnectTo(peer, entry.host, entry.port, interrupt, deadline);
  const Hello hello{.secret = entry.secret, .rank = rank_};
  send(connection.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  if (!AwaitReadable(connection.get(), interrupt, deadline)) {
    throw PeerTrouble(PeerTrouble::kTimedOut, {peer});
  }
  char answer = 0;
  const ssize_t num_bytes = recv(connection.get(), &answer, 1, 0);
  if (num_bytes != 1) throw PeerTrouble(PeerTrouble::kLost, {peer});
  return answer == kTaken ? std::move(connection) : FileDescriptor();
}

Connector::~Connector() {
  StopListening();
  // The loop may still have events for what it watched here, among those that it has fetched.
  loop_->Run([] {});
}

void Connector::StopListening() {
  loop_->Run([this] {
    if (!listener_.is_open()) return;
    device_->unregisterDescriptor(listener_.get(), &accept_all_);
    listener_.Close();
    while (!callers_.empty()) Release(callers_.front().get());
  });
}

void Connector::AcceptAll() {
  released_.clear();
  if (!listener_.is_open()) return;
  for (FileDescriptor connection = Accept(listener_.get()); connection.is_open();
       connection = Accept(listener_.get())) {
    // The loop needn't look before all of it is there.
    SetLowWaterMark(connection.get(), sizeof(Hello));
    auto caller = std::make_unique<Caller>();
    caller->callback = std::make_unique<LoopCallback>([this, raw = caller.get()] { Hear(raw); });
    caller->connection = std::move(connection);
    device_->registerDescriptor(caller->connection.get(), EPOLLIN, caller->callback.get());
    callers_.push_back(std::move(caller));
    if (std::ssize(callers_) > size_ + kMaxStrangers) Release(callers_.front().get());
  }
}

void Connector::Hear(Caller* caller) {
  if (!caller->connection.is_open()) return;  // released meanwhile
  FileDescriptor connection = Release(caller);
  Hello hello;
  if (recv(connection.get(), &hello, sizeof hello, 0) != sizeof hello || !IsPeer(hello)) return;
  SetLowWaterMark(connection.get(), 1);
  const char answer = admit_(hello.rank) ? kTaken : kCallingYou;
  send(connection.get(), &answer, 1, MSG_NOSIGNAL);
  if (answer == kTaken) connected_(hello.rank, std::move(connection));
}

bool Connector::IsPeer(const Hello& hello) const {
  return hello.magic == Hello().magic && hello.secret == secret_ && hello.rank >= 0 &&
         hello.rank < size_ && hello.rank != rank_;
}

FileDescriptor Connector::Release(Caller* caller) {
  device_->unregisterDescriptor(caller->connection.get(), caller->callback.get());
  FileDescriptor connection = std::move(caller->connection);
  const auto entry = std::ranges::find(callers_, caller, &std::unique_ptr<Caller>::get);
  released_.push_back(std::move(*entry));
  callers_.erase(entry);
  return connection;
}

}  // namespace ddp
