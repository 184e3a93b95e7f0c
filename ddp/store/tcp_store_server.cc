#include "ddp/store/tcp_store_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ddp/store/message.h"
#include "ddp/store/socket.h"
#include "ddp/store/table.h"

namespace ddp {
namespace {

using Kind = Message::Kind;

// Who hasn't said hello by then is no client.
constexpr Duration kHelloTimeout = std::chrono::seconds(10);
// How long to leave the listener alone when there are no descriptors left.
constexpr Duration kAcceptPause = std::chrono::milliseconds(50);
constexpr size_t kReadBytes = 256 << 10;
// Of clients without a will: they may say nothing for as long as they like.
constexpr Duration kNever = std::chrono::hours(24 * 365);

// A request that waits for keys. It is filed under one that is missing, keys[next].
struct Pending {
  Message request = {};
  size_t next = 0;
  Deadline deadline = {};

  bool filed() const { return next < request.strings.size(); }
  const std::string& key() const { return request.strings[next]; }
};

struct Client {
  explicit Client(FileDescriptor socket) : socket(std::move(socket)) {}

  FileDescriptor socket;
  Deadline hello_deadline = DeadlineAfter(kHelloTimeout);
  bool greeted = false;
  bool admitted = false;  // has brought the token
  bool closed = false;
  std::string inbox;
  std::string outbox;
  size_t num_sent = 0;  // bytes of the outbox that have left
  std::optional<Pending> pending;
  // Keys and values in turns, to be set when it is gone or has been silent until the deadline.
  std::vector<std::string> will;
  Duration silence = kNever;
  Deadline silence_deadline = DeadlineAfter(kNever);

  // A request is taken up when the answer to the one before has left.
  bool ready() const { return !closed && outbox.empty() && !pending; }
};

size_t NumStrings(Kind kind) {
  switch (kind) {
    case Kind::kSet:
      return 2;
    case Kind::kCompareAndSet:
      return 3;
    default:
      return 1;
  }
}

void CheckRequest(const Message& request) {
  if (request.kind > Kind::kWill) throw MalformedMessage("not a request");
  if (request.kind == Kind::kWill && request.strings.size() % 2 != 0) {
    throw MalformedMessage("a will with a key that has no value");
  }
  const bool takes_list =
      request.kind == Kind::kWait || request.kind == Kind::kCheck || request.kind == Kind::kWill;
  if (!takes_list && request.strings.size() != NumStrings(request.kind)) {
    throw MalformedMessage("wrong number of arguments");
  }
}

}  // namespace

class TcpStoreServer::Impl {
 public:
  explicit Impl(const TcpStoreServerOptions& options)
      : listener_(options.listening_fd >= 0 ? AdoptListener(options.listening_fd)
                                            : Listen(options.host, options.port)),
        port_(LocalPort(listener_.get())),
        wake_(OpenEvent()),
        token_(options.token),
        thread_([this] { Run(); }) {}

  ~Impl() {
    stop_ = true;
    Wake();
    thread_.join();
  }

  int port() const { return port_; }

  void StartOver(const std::string& token) {
    {
      std::lock_guard lock(mutex_);
      next_token_ = token;
    }
    Wake();
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    while (write(wake_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  // Nothing a client sends can end the loop: what goes wrong in serving one closes that one.
  void Run() {
    std::vector<pollfd> entries;
    for (Poll(&entries); !stop_; Poll(&entries)) {
      TakeOrders();
      for (size_t i = 0; i < clients_.size(); ++i) {
        Client& client = *clients_[i];
        if (entries[i].revents != 0) Guarded(client, [&] { Serve(client, entries[i].revents); });
      }
      if (entries.back().revents != 0) AcceptAll();
      EndWhatIsOverdue();
      CarryOutWills();
      std::erase_if(clients_, [](const auto& client) { return client->closed; });
    }
  }

  // Entries: the clients in order, the wake-up call, the listener.
  void Poll(std::vector<pollfd>* entries) {
    entries->clear();
    for (const auto& client : clients_) {
      const short events = client->outbox.empty() ? POLLIN : POLLOUT;
      entries->push_back({.fd = client->socket.get(), .events = events, .revents = 0});
    }
    entries->push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
    const bool accepting = Clock::now() >= accept_after_;
    entries->push_back({.fd = accepting ? listener_.get() : -1, .events = POLLIN, .revents = 0});
    poll(entries->data(), entries->size(), MillisecondsLeft(NextDeadline()));
  }

  // Before anything else: who comes now may bring the new token.
  void TakeOrders() {
    uint64_t count = 0;
    if (read(wake_.get(), &count, sizeof count) < 0) return;
    std::optional<std::string> token;
    {
      std::lock_guard lock(mutex_);
      token = std::exchange(next_token_, std::nullopt);
    }
    if (!token) return;
    const Message over{.kind = Kind::kRefused,
                       .strings = {fmt::format("'{}' is over, '{}' has begun", token_, *token)}};
    token_ = *token;
    table_.Clear();
    for (const auto& client : clients_) {
      client->will.clear();
      if (client->admitted) Guarded(*client, [&] { Answer(*client, over); });
      Close(*client);
    }
  }

  Deadline NextDeadline() const {
    Deadline next = DeadlineAfter(kHelloTimeout);
    if (accept_after_ > Clock::now()) next = std::min(next, accept_after_);
    for (const auto& client : clients_) {
      if (client->pending) next = std::min(next, client->pending->deadline);
      if (!client->admitted) next = std::min(next, client->hello_deadline);
      next = std::min(next, client->silence_deadline);
    }
    return next;
  }

  void AcceptAll() {
    for (;;) {
      FileDescriptor socket = Accept(listener_.get());
      if (!socket.is_open()) break;
      clients_.push_back(std::make_unique<Client>(std::move(socket)));
    }
    if (errno == EMFILE || errno == ENFILE) accept_after_ = DeadlineAfter(kAcceptPause);
  }

  template <class F>
  void Guarded(Client& client, F serve) {
    try {
      serve();
    } catch (const std::exception&) {
      Close(client);
    }
  }

  void Serve(Client& client, short events) {
    if (events & POLLOUT) Flush(client);
    if (events & (POLLIN | POLLHUP | POLLERR)) Read(client);
    while (client.ready() && TakeRequest(client)) {
    }
  }

  void Read(Client& client) {
    const ssize_t received = recv(client.socket.get(), read_buffer_.data(), kReadBytes, 0);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (received <= 0 || client.inbox.size() > kMaxMessageBytes + kReadBytes) {
      Close(client);
      return;
    }
    client.inbox.append(read_buffer_.data(), received);
    client.silence_deadline = DeadlineAfter(client.silence);
    if (!client.greeted) Greet(client);
  }

  void Greet(Client& client) {
    const size_t num_bytes = std::min(client.inbox.size(), kClientHello.size());
    if (!kClientHello.starts_with(std::string_view(client.inbox).substr(0, num_bytes))) {
      Close(client);
    } else if (num_bytes == kClientHello.size()) {
      client.greeted = true;
      client.inbox.erase(0, num_bytes);
      client.outbox += kServerHello;
      Flush(client);
    }
  }

  // Takes the next request out of the inbox; false when there is none yet.
  bool TakeRequest(Client& client) {
    if (!client.greeted) return false;
    Message request;
    const size_t used = Decode(client.inbox, &request);
    if (used == 0) return false;
    client.inbox.erase(0, used);
    CheckRequest(request);
    if (!client.admitted) {
      Admit(client, request);
    } else if (request.kind == Kind::kWill) {
      client.silence = request.strings.empty() ? kNever : Duration(request.number);
      client.silence_deadline = DeadlineAfter(client.silence);
      client.will = std::move(request.strings);
      Answer(client, {});
    } else if (request.kind == Kind::kGet || request.kind == Kind::kWait) {
      const Duration timeout(request.number);
      client.pending = {.request = std::move(request), .deadline = DeadlineAfter(timeout)};
      AnswerOrFile(client);
    } else {
      Answer(client, Execute(request));
    }
    return true;
  }

  void Admit(Client& client, const Message& request) {
    if (request.kind != Kind::kEnter) throw MalformedMessage("a client must enter first");
    client.admitted = request.strings[0] == token_;
    if (client.admitted) return Answer(client, {});
    const std::string why =
        fmt::format("it is the store of '{}', and refuses '{}', which is another job or is over",
                    token_, request.strings[0]);
    Answer(client, {.kind = Kind::kRefused, .strings = {why}});
    Close(client);
  }

  Message Execute(const Message& request) {
    const std::string& key = request.strings.empty() ? std::string() : request.strings[0];
    try {
      switch (request.kind) {
        case Kind::kSet:
          table_.Set(key, request.strings[1]);
          WakeWaiters(key);
          return {};
        case Kind::kAdd: {
          const int64_t sum = table_.Add(key, request.number);
          WakeWaiters(key);
          return {.number = sum};
        }
        case Kind::kCompareAndSet: {
          const std::string value =
              table_.CompareAndSet(key, request.strings[1], request.strings[2]);
          WakeWaiters(key);
          return {.strings = {value}};
        }
        case Kind::kCheck:
          return {.number = table_.HasAll(request.strings)};
        default:
          return {.number = table_.Delete(key)};
      }
    } catch (const std::invalid_argument& error) {
      return {.kind = Kind::kInvalid, .strings = {error.what()}};
    }
  }

  // Answers a waiting client if its keys are there, or files it under the next that is missing.
  void AnswerOrFile(Client& client) {
    Pending& pending = *client.pending;
    const std::vector<std::string>& keys = pending.request.strings;
    while (pending.filed() && table_.Find(pending.key()) != nullptr) ++pending.next;
    if (!pending.filed()) {
      // One that was seen may have been deleted since: look at all of them again.
      const auto missing = std::ranges::find_if(
          keys, [this](const auto& key) { return table_.Find(key) == nullptr; });
      pending.next = missing - keys.begin();
    }
    if (pending.filed()) {
      waiters_.emplace(pending.key(), &client);
    } else {
      const bool wants_value = pending.request.kind == Kind::kGet;
      Message answer;
      if (wants_value) answer.strings.push_back(*table_.Find(keys[0]));
      client.pending.reset();
      Answer(client, answer);
    }
  }

  void WakeWaiters(const std::string& key) {
    if (table_.Find(key) == nullptr) return;
    const auto [begin, end] = waiters_.equal_range(key);
    std::vector<Client*> woken;
    for (auto it = begin; it != end; ++it) woken.push_back(it->second);
    waiters_.erase(begin, end);
    for (Client* client : woken) Guarded(*client, [&] { AnswerOrFile(*client); });
  }

  void Unfile(Client& client) {
    if (!client.pending || !client.pending->filed()) return;
    const auto [begin, end] = waiters_.equal_range(client.pending->key());
    for (auto it = begin; it != end; ++it) {
      if (it->second == &client) {
        waiters_.erase(it);
        break;
      }
    }
  }

  void EndWhatIsOverdue() {
    const auto now = Clock::now();
    for (const auto& client : clients_) {
      if (!client->admitted && client->hello_deadline <= now) Close(*client);
      if (client->silence_deadline <= now) Close(*client);
      if (!client->pending || client->pending->deadline > now) continue;
      Unfile(*client);
      const Message request = std::move(client->pending->request);
      client->pending.reset();
      Guarded(*client, [&] {
        Answer(*client, {.kind = Kind::kTimedOut, .strings = table_.Missing(request.strings)});
      });
    }
  }

  // A client that is woken by it may be lost in turn, and have a will, too.
  void CarryOutWills() {
    for (bool found = true; found;) {
      found = false;
      for (const auto& client : clients_) {
        if (!client->closed || client->will.empty()) continue;
        found = true;
        const std::vector<std::string> will = std::exchange(client->will, {});
        for (size_t i = 0; i < will.size(); i += 2) {
          if (table_.Find(will[i]) != nullptr) continue;
          table_.Set(will[i], will[i + 1]);
          WakeWaiters(will[i]);
        }
      }
    }
  }

  void Answer(Client& client, const Message& answer) {
    client.outbox += Encode(answer);
    Flush(client);
  }

  // Sends what the socket takes; the rest follows when poll says that there is room.
  void Flush(Client& client) {
    while (client.num_sent < client.outbox.size()) {
      const ssize_t sent = send(client.socket.get(), client.outbox.data() + client.num_sent,
                                client.outbox.size() - client.num_sent, MSG_NOSIGNAL);
      if (sent >= 0) {
        client.num_sent += sent;
      } else if (errno == EAGAIN) {
        return;
      } else if (errno != EINTR) {
        Close(client);
        return;
      }
    }
    client.outbox.clear();
    client.num_sent = 0;
  }

  // The client itself goes at the end of the turn.
  void Close(Client& client) {
    Unfile(client);
    client.pending.reset();
    client.closed = true;
  }

  const FileDescriptor listener_;
  const int port_;
  const FileDescriptor wake_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::optional<std::string> next_token_;  // guarded by mutex_
  // The thread's own.
  std::string token_;
  Table table_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::unordered_multimap<std::string, Client*> waiters_;  // by a key that each misses
  Deadline accept_after_{};
  std::vector<char> read_buffer_ = std::vector<char>(kReadBytes);
  std::thread thread_;
};

TcpStoreServer::TcpStoreServer(const TcpStoreServerOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}

TcpStoreServer::~TcpStoreServer() = default;

int TcpStoreServer::port() const { return impl_->port(); }

void TcpStoreServer::StartOver(const std::string& token) { impl_->StartOver(token); }

}  // namespace ddp
