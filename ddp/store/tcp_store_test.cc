// What is particular to the network: addresses, ports, strangers, servers that come and go.
#include "ddp/store/tcp_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <system_error>
#include <thread>

#include "ddp/store/message.h"
#include "ddp/store/socket.h"
#include "ddp/store/tcp_store_server.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

template <class Error, class F>
std::string MessageOf(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no such error";
}

TcpStore Connected(const TcpStoreServer& server) {
  return TcpStore("127.0.0.1", server.port(), {.timeout = 30s});
}

// A port where nobody listens, and nobody else will.
FileDescriptor ReservePort() {
  FileDescriptor reserved(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(reserved.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return reserved;
}

// A client that speaks bytes of its own.
class Stranger {
 public:
  explicit Stranger(const TcpStoreServer& server)
      : socket_(Connect("127.0.0.1", server.port(), DeadlineAfter(30s))) {}

  void Say(std::string_view bytes) {
    EXPECT_GE(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  }
  // Whether the server hangs up, however much it says before.
  bool IsTurnedAway() {
    char bytes[4096];
    while (WaitUntilReady(socket_.get(), POLLIN, DeadlineAfter(30s))) {
      if (recv(socket_.get(), bytes, sizeof bytes, 0) <= 0) return true;
    }
    return false;
  }

 private:
  FileDescriptor socket_;
};

TEST(TcpStoreTest, IPv4AndIPv6AndNames) {
  TcpStoreServer server;
  for (const char* host : {"127.0.0.1", "localhost"}) {
    EXPECT_EQ(TcpStore(host, server.port()).Add(host, 1), 1);
  }
  TcpStoreServer only_v6({.host = "::1"});
  TcpStore store("::1", only_v6.port());
  EXPECT_EQ(store.Add("count", 1), 1);
  EXPECT_EQ(store.local_address(), "::1");
}

TEST(TcpStoreTest, KnowsItsOwnAddress) {
  TcpStoreServer server;
  EXPECT_EQ(Connected(server).local_address(), "127.0.0.1");
}

TEST(TcpStoreTest, AHostThatDoesNotExistFailsAtOnce) {
  EXPECT_THAT(MessageOf<std::system_error>([] { TcpStore("no such host", 1); }),
              HasSubstr("'no such host'"));
}

TEST(TcpStoreTest, APortInUseIsNamed) {
  TcpStoreServer server;
  EXPECT_THAT(
      MessageOf<std::system_error>([&] { TcpStoreServer({.port = server.port()}); }),
      AllOf(HasSubstr(fmt::format("port {} is in use", server.port())), HasSubstr("0 for any")));
}

TEST(TcpStoreTest, TakesOverAListeningSocket) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(listen(listener, 8), 0);
  const int port = LocalPort(listener);
  TcpStoreServer server({.listening_fd = listener});
  EXPECT_EQ(server.port(), port);
  EXPECT_EQ(Connected(server).Add("count", 1), 1);
}

TEST(TcpStoreTest, RefusesADescriptorThatDoesNotListen) {
  EXPECT_THROW(TcpStoreServer({.listening_fd = socket(AF_INET, SOCK_STREAM, 0)}),
               std::system_error);
}

TEST(TcpStoreTest, WaitsForAServerThatStartsLater) {
  const FileDescriptor reserved = ReservePort();
  const int port = LocalPort(reserved.get());
  EXPECT_THROW(Connect("127.0.0.1", port, DeadlineAfter(30s)), std::system_error);
  std::thread client([&] { EXPECT_EQ(TcpStore("127.0.0.1", port).Get("key"), "value"); });
  ASSERT_EQ(listen(reserved.get(), 8), 0);
  TcpStoreServer server({.listening_fd = dup(reserved.get())});
  Connected(server).Set("key", "value");
  client.join();
}

TEST(TcpStoreTest, GivesUpAtTheDeadlineAndNamesTheAddress) {
  const FileDescriptor reserved = ReservePort();
  const int port = LocalPort(reserved.get());
  const auto start = Clock::now();
  EXPECT_THAT(MessageOf<TimeoutError>([&] { TcpStore("127.0.0.1", port, {.timeout = 60ms}); }),
              AllOf(HasSubstr(fmt::format("127.0.0.1:{}", port)), HasSubstr("gave up after 0."),
                    HasSubstr("refused")));
  EXPECT_GE(Clock::now() - start, 60ms);
}

TEST(TcpStoreTest, AServerThatNeverAnswersIsNamed) {
  const FileDescriptor listener = Listen("127.0.0.1", 0);
  const int port = LocalPort(listener.get());
  EXPECT_THAT(MessageOf<TimeoutError>([&] { TcpStore("127.0.0.1", port, {.timeout = 40ms}); }),
              AllOf(HasSubstr(fmt::format("127.0.0.1:{}", port)), HasSubstr("no store answered")));
}

TEST(TcpStoreTest, SomethingElseThatAnswersIsNoStore) {
  const FileDescriptor listener = Listen("127.0.0.1", 0);
  std::thread other([&] {
    WaitUntilReady(listener.get(), POLLIN, DeadlineAfter(30s));
    const FileDescriptor client = Accept(listener.get());
    send(client.get(), "HTTP/1.1 400 Bad Request\r\n", 26, MSG_NOSIGNAL);
    char bytes[64];
    WaitUntilReady(client.get(), POLLIN, DeadlineAfter(30s));
    recv(client.get(), bytes, sizeof bytes, 0);
  });
  EXPECT_THAT(MessageOf<CollectiveError>([&] { TcpStore("127.0.0.1", LocalPort(listener.get())); }),
              HasSubstr("not a store"));
  other.join();
}

TEST(TcpStoreTest, AServerThatEndsIsAnErrorAtOnce) {
  auto server = std::make_unique<TcpStoreServer>();
  TcpStore store = TcpStore("127.0.0.1", server->port(), {.timeout = 1h});
  std::thread waiting([&] { EXPECT_THROW(store.Get("never"), CollectiveError); });
  store.Set("key", "value");
  server.reset();
  waiting.join();
  EXPECT_THAT(MessageOf<CollectiveError>([&] { store.Set("key", "value"); }),
              HasSubstr("lost the store at 127.0.0.1:"));
  EXPECT_THROW(store.Get("key"), CollectiveError);
}

TEST(TcpStoreTest, StartsAndStopsOftenOnOnePort) {
  int port = TcpStoreServer().port();
  for (int i = 0; i < 100; ++i) {
    TcpStoreServer server({.host = "127.0.0.1", .port = port});
    EXPECT_EQ(Connected(server).Add("count", 1), 1);
  }
}

TEST(TcpStoreTest, ValuesBeyondTheLimitAreRefused) {
  TcpStoreServer server;
  TcpStore store = TcpStore("127.0.0.1", server.port());
  EXPECT_THROW(store.Set("huge", std::string(65 << 20, 'x')), std::invalid_argument);
  EXPECT_FALSE(store.Check({"huge"}));
}

TEST(TcpStoreTest, StrangersAreTurnedAway) {
  TcpStoreServer server;
  TcpStore store = TcpStore("127.0.0.1", server.port());
  store.Set("key", "value");
  std::mt19937 random(17);
  for (int i = 0; i < 50; ++i) {
    std::string garbage(1 + random() % 1000, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    Stranger web(server), scanner(server), liar(server), rambler(server);
    web.Say("GET / HTTP/1.1\r\n\r\n");
    liar.Say(Greeting("") + "\xff\xff\xff\xff");
    rambler.Say(Greeting("") + "\x09" + std::string("\0\0\0\xee", 4) + garbage);
    EXPECT_TRUE(web.IsTurnedAway());
    EXPECT_TRUE(liar.IsTurnedAway());
  }
  EXPECT_EQ(store.Get("key"), "value");
}

TEST(TcpStoreTest, HalfOpenAndSlowClientsHoldUpNobody) {
  TcpStoreServer server;
  Stranger silent(server), slow(server);
  slow.Say("ddp store cl");
  EXPECT_EQ(Connected(server).Add("count", 1), 1);
  slow.Say("ient 2\n");
  EXPECT_EQ(Connected(server).Add("count", 1), 2);
}

// Requests of every kind with bytes changed, cut off or added, and connections that are dropped at
// any moment, while an honest client works.
TEST(TcpStoreTest, MutatedRequestsDisturbNobody) {
  TcpStoreServer server;
  std::atomic<bool> over = false;
  std::thread attacker([&] {
    std::mt19937 random(29);
    using Kind = Message::Kind;
    const Message requests[] = {{Kind::kSet, 0, {"stray/a", std::string(300, 'x')}},
                                {Kind::kGet, 1'000'000, {"stray/b"}},
                                {Kind::kAdd, 5, {"stray/c"}},
                                {Kind::kCompareAndSet, 0, {"stray/d", "", "new"}},
                                {Kind::kWait, 1'000'000, {"stray/e", "stray/f"}},
                                {Kind::kCheck, 0, {"stray/g"}},
                                {Kind::kDelete, 0, {"stray/h"}},
                                {Kind::kEnter, 0, {""}},
                                {Kind::kWill, 1'000'000, {"stray/i", "lost", "stray/j", ""}},
                                {Kind::kDone, 0, {}}};
    for (int round = 0; round < 2000; ++round) {
      std::string bytes = Encode(requests[random() % std::size(requests)]);
      for (int changes = random() % 4; changes > 0; --changes) {
        bytes[random() % bytes.size()] = static_cast<char>(random());
      }
      if (random() % 4 == 0) bytes.resize(random() % bytes.size());
      if (random() % 4 == 0) bytes += bytes;
      Stranger stranger(server);
      if (random() % 8 != 0) stranger.Say(Greeting(""));
      stranger.Say(bytes);
    }
    over = true;
  });
  TcpStore store = Connected(server);
  int64_t count = 0;
  while (!over) {
    EXPECT_EQ(store.Add("count", 1), ++count);
    const std::string value(count % 5000, 'v');
    store.Set("key", value);
    EXPECT_EQ(store.Get("key"), value);
  }
  attacker.join();
}

TEST(TcpStoreTest, TheStoreOfAnotherJobRefuses) {
  TcpStoreServer server({.token = "job 7"});
  TcpStore own("127.0.0.1", server.port(), {.token = "job 7"});
  own.Set("key", "value");
  for (const std::string token : {"job 8", "", "job"}) {
    EXPECT_THAT(
        MessageOf<CollectiveError>([&] { TcpStore("127.0.0.1", server.port(), {.token = token}); }),
        AllOf(HasSubstr(fmt::format("no store at 127.0.0.1:{}", server.port())),
              HasSubstr(fmt::format("the store of 'job 7', and refuses '{}'", token))));
  }
  Stranger early(server);
  early.Say(std::string(kClientHello) +
            Encode({.kind = Message::Kind::kSet, .strings = {"key", "other"}}));
  EXPECT_TRUE(early.IsTurnedAway());
  EXPECT_EQ(own.Get("key"), "value");
}

TEST(TcpStoreTest, AStoreThatStartsOverKnowsNothingAndNobodyFromBefore) {
  TcpStoreServer server({.token = "job.0"});
  const auto connect = [&](const std::string& token) {
    return TcpStore("127.0.0.1", server.port(), {.timeout = 1h, .token = token});
  };
  TcpStore straggler = connect("job.0");
  straggler.Set("key", "old");
  std::thread waiting([&] {
    EXPECT_THAT(MessageOf<CollectiveError>([&] { straggler.Get("never"); }),
                HasSubstr("'job.0' is over, 'job.1' has begun"));
  });
  server.StartOver("job.1");
  waiting.join();
  EXPECT_EQ(connect("job.1").CompareAndSet("key", "", "new"), "new");
  EXPECT_THROW(straggler.Get("key"), CollectiveError);
  EXPECT_THAT(MessageOf<CollectiveError>([&] { connect("job.0"); }), HasSubstr("or is over"));
}

// One connection's waiting holds up no other's requests, and no answer goes astray.
TEST(TcpStoreTest, WaitingAndOtherRequestsDoNotMix) {
  TcpStoreServer server;
  TcpStore store = Connected(server);
  constexpr int kRounds = 100'000;
  std::thread heart([&] {
    for (int i = 1; i <= kRounds; ++i) EXPECT_EQ(store.Add("beats", 1), i);
  });
  for (int i = 0; i < kRounds / 10; ++i) {
    const std::string key = fmt::format("key/{}", i);
    std::thread setter;
    if (i % 100 == 0) setter = std::thread([&] { store.Set(key, key); });
    if (i % 100 != 0) store.Set(key, key);
    EXPECT_EQ(store.Get(key), key);
    if (setter.joinable()) setter.join();
  }
  heart.join();
}

}  // namespace
}  // namespace ddp
