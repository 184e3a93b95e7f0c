// What is Gloo's own: connections that come about as they are needed, and how they break. What the
// operations give is tested in ddp/collectives/collectives_test.cc.
#include "ddp/collectives/gloo/gloo_backend.h"

#include <dirent.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ddp/errors.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/socket.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

// Counts what ranks ask of it.
class CountingStore : public Store {
 public:
  CountingStore() : Store(kDefaultTimeout) {}
  int num_operations() const { return num_operations_; }

 private:
  HashStore& Count() {
    ++num_operations_;
    return store_;
  }
  void DoSet(const std::string& key, const std::string& value, Duration timeout) override {
    Count().Set(key, value, timeout);
  }
  std::string DoGet(const std::string& key, Duration timeout) override {
    return Count().Get(key, timeout);
  }
  int64_t DoAdd(const std::string& key, int64_t amount, Duration timeout) override {
    return Count().Add(key, amount, timeout);
  }
  std::string DoCompareAndSet(const std::string& key, const std::string& expected,
                              const std::string& desired, Duration timeout) override {
    return Count().CompareAndSet(key, expected, desired, timeout);
  }
  void DoWait(const std::vector<std::string>& keys, Duration timeout) override {
    Count().Wait(keys, timeout);
  }
  bool DoCheck(const std::vector<std::string>& keys, Duration timeout) override {
    return Count().Check(keys, timeout);
  }
  bool DoDelete(const std::string& key, Duration timeout) override {
    return Count().Delete(key, timeout);
  }

  HashStore store_;
  std::atomic<int> num_operations_ = 0;
};

int CountDescriptors() {
  DIR* const directory = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// What a rank knows of its group before it has a backend.
Meeting MeetingOf(const std::shared_ptr<Store>& store, int rank, int size) {
  Meeting meeting;
  meeting.options.rank = rank;
  meeting.options.world_size = size;
  meeting.store = store;
  meeting.members.resize(size);
  meeting.deadline = DeadlineAfter(seconds(60));
  return meeting;
}

class Rank {
 public:
  Rank(const std::shared_ptr<Store>& store, int rank, int size)
      : rank_(rank), backend_(MakeGlooBackend(MeetingOf(store, rank, size))) {}

  int rank() const { return rank_; }
  Backend& backend() { return *backend_; }
  void End() { backend_.reset(); }

  void Run(const Operation& operation, Duration timeout = seconds(60)) {
    backend_->Run(operation, CallOf(operation, ++sequence_number_), DeadlineAfter(timeout));
  }
  void Exchange(const std::vector<Operation>& operations, Duration timeout = seconds(60)) {
    backend_->Exchange(operations, DeadlineAfter(timeout));
  }

 private:
  const int rank_;
  int64_t sequence_number_ = 0;
  std::unique_ptr<Backend> backend_;
};

void RunRanks(const std::shared_ptr<Store>& store, int size,
              const std::function<void(Rank&)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < size; ++i) {
    threads.emplace_back([&, i] {
      try {
        Rank rank(store, i, size);
        body(rank);
      } catch (const PeerTrouble& trouble) {
        ADD_FAILURE() << fmt::format("rank {}: {} of rank {}: {}", i,
                                     trouble.kind() == PeerTrouble::kLost ? "loss" : "lateness",
                                     trouble.ranks().front(), trouble.reason());
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << i << ": " << error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void RunRanks(int size, const std::function<void(Rank&)>& body) {
  RunRanks(std::make_shared<HashStore>(), size, body);
}

Operation Sum(std::vector<float>& values) {
  const Buffer buffer{values.data(), static_cast<int64_t>(values.size())};
  return {.kind = OperationKind::kAllReduce, .input = buffer, .output = buffer};
}
Operation Send(std::vector<float>& values, int to) {
  return {.kind = OperationKind::kSend,
          .input = {values.data(), static_cast<int64_t>(values.size())},
          .root = to};
}
Operation Receive(std::vector<float>& values, int from) {
  return {.kind = OperationKind::kReceive,
          .output = {values.data(), static_cast<int64_t>(values.size())},
          .root = from};
}

// Who is missed by an operation that can't succeed, and why.
struct Missed {
  PeerTrouble::Kind kind;
  std::vector<int> ranks;
};
Missed Miss(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const PeerTrouble& trouble) {
    return {trouble.kind(), trouble.ranks()};
  }
  ADD_FAILURE() << "nobody was missed";
  return {};
}

TEST(GlooBackendTest, AnAddressThatNoRankHasWrittenIsNone) {
  const auto message_with = [](const std::string& address) -> std::string {
    const auto store = std::make_shared<HashStore>();
    store->Set("address/1", address);
    Rank rank(store, 0, 2);
    std::vector<float> values(1);
    try {
      rank.Exchange({Send(values, 1)});
    } catch (const CollectiveError& error) {
      return error.what();
    }
    return "no such error";
  };
  std::string secret;
  for (int i = 0; i < 15; ++i) secret += " 0a";
  std::vector<std::string> addresses = {"",
                                        "127.0.0.1",
                                        "127.0.0.1 x",
                                        "127.0.0.1 0" + secret + " 00",
                                        "127.0.0.1 70000" + secret + " 00",
                                        "127.0.0.1 7000" + secret,
                                        "127.0.0.1 7000" + secret + " 100",
                                        "127.0.0.1 7000" + secret + " -1",
                                        "127.0.0.1 7000" + secret + " 00 00"};
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::string bytes = "?";  // a '-' would be the reason why there is no address
    for (auto size = random() % 80; size > 0; --size) bytes += static_cast<char>(random());
    addresses.push_back(bytes);
  }
  for (const std::string& address : addresses) {
    EXPECT_THAT(message_with(address),
                testing::HasSubstr("key 'address/1' holds what no rank has written"))
        << address;
  }
}

TEST(GlooBackendTest, TwoHundredRanksTouchNeighboursOnly) {
  constexpr int kRanks = 200;
  const auto store = std::make_shared<CountingStore>();
  const int descriptors_before = CountDescriptors();
  std::atomic<int> most_descriptors = 0;
  const auto start = Clock::now();
  RunRanks(store, kRanks, [&](Rank& rank) {
    rank.Run({.kind = OperationKind::kJoin});
    std::vector<float> values(1000, rank.rank());
    rank.Run(Sum(values));
    EXPECT_EQ(values, std::vector<float>(1000, kRanks * (kRanks - 1) / 2));
    if (rank.rank() == kRanks / 2) most_descriptors = CountDescriptors() - descriptors_before;
    rank.Run({.kind = OperationKind::kBarrier});
  });
  const Duration elapsed = Clock::now() - start;
  fmt::print("{}, {} store operations, {} descriptors\n", FormatSeconds(elapsed),
             store->num_operations(), most_descriptors.load());
  EXPECT_LT(store->num_operations(), 4 * kRanks);
  EXPECT_LT(most_descriptors, 12 * kRanks);
  EXPECT_EQ(CountDescriptors(), descriptors_before);
}

// All pairs at the same time, both sides or one; then a collective that needs all.
TEST(GlooBackendTest, AnyTwoRanksConnect) {
  constexpr int kRanks = 12;
  RunRanks(kRanks, [](Rank& rank) {
    std::vector<float> mine(100, rank.rank());
    std::vector<std::vector<float>> theirs(kRanks, std::vector<float>(100));
    std::vector<Operation> operations;
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank.rank()) continue;
      operations.push_back(Send(mine, peer));
      operations.push_back(Receive(theirs[peer], peer));
    }
    rank.Exchange(operations);
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank.rank()) continue;
      EXPECT_EQ(theirs[peer], std::vector<float>(100, peer));
    }
    std::vector<float> all(100 * kRanks);
    rank.Run({.kind = OperationKind::kAllGather,
              .input = {mine.data(), 100},
              .output = {all.data(), 100 * kRanks}});
    for (int i = 0; i < 100 * kRanks; ++i) EXPECT_EQ(all[i], i / 100);
  });
}

// Rank 0 waits for rank 1, which needs rank 2, which needs rank 0 first: nobody's connection waits
// for another's.
TEST(GlooBackendTest, ConnectsToWhoeverIsThere) {
  RunRanks(3, [](Rank& rank) {
    std::vector<float> mine(100'000, rank.rank()), a(100'000), b(100'000);
    if (rank.rank() == 0) {
      rank.Exchange({Receive(a, 1), Receive(b, 2)});
      EXPECT_EQ(a.back(), 1);
      EXPECT_EQ(b.back(), 2);
    } else if (rank.rank() == 1) {
      rank.Exchange({Receive(a, 2)});
      rank.Exchange({Send(mine, 0)});
    } else {
      rank.Exchange({Send(mine, 0)});
      rank.Exchange({Send(mine, 1)});
    }
  });
}

// Whoever is done leaves, while others are still connecting.
TEST(GlooBackendTest, RanksComeAndGo) {
  for (int round = 0; round < 20; ++round) {
    for (const int size : {2, 3, 9}) {
      RunRanks(size, [&](Rank& rank) {
        std::vector<float> value(1, 1);
        rank.Run(Sum(value));
        EXPECT_THAT(value, ElementsAre(size));
      });
    }
  }
}

TEST(GlooBackendTest, AClosedPeerIsNamed) {
  for (const int size : {3, 12}) {
    RunRanks(size, [&](Rank& rank) {
      rank.Run({.kind = OperationKind::kJoin});
      if (rank.rank() == 1) {
        rank.backend().Stop();
        rank.backend().Close();
        return;
      }
      std::vector<float> values(1 << 20);
      const Missed missed = Miss([&] { rank.Run(Sum(values)); });
      EXPECT_EQ(missed.kind, PeerTrouble::kLost);
      // Others leave as well, then.
      if (size == 12 && rank.rank() == 0) {
        EXPECT_THAT(missed.ranks, ElementsAre(1));
      }
      rank.backend().Close();
    });
  }
}

TEST(GlooBackendTest, APeerThatCantBeReachedIsNamed) {
  const auto store = std::make_shared<HashStore>();
  std::thread unreachable([&] {
    Meeting meeting = MeetingOf(store, 1, 2);
    meeting.options.interface = "nonesuch";
    EXPECT_THROW(MakeGlooBackend(meeting), std::invalid_argument);
  });
  Rank rank(store, 0, 2);
  const Missed missed = Miss([&] { rank.Run({.kind = OperationKind::kJoin}); });
  EXPECT_EQ(missed.kind, PeerTrouble::kLost);
  EXPECT_THAT(missed.ranks, ElementsAre(1));
  unreachable.join();
}

TEST(GlooBackendTest, APeerThatDoesNotComeIsLate) {
  Rank rank(std::make_shared<HashStore>(), 0, 2);
  const auto start = Clock::now();
  const Missed missed = Miss([&] { rank.Run({.kind = OperationKind::kJoin}, milliseconds(300)); });
  EXPECT_EQ(missed.kind, PeerTrouble::kTimedOut);
  EXPECT_THAT(missed.ranks, ElementsAre(1));
  EXPECT_NEAR(std::chrono::duration<double>(Clock::now() - start).count(), 0.3, 0.1);
}

TEST(GlooBackendTest, StopEndsConnecting) {
  Rank rank(std::make_shared<HashStore>(), 0, 2);
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    rank.backend().Stop();
    rank.backend().Close();
  });
  const auto start = Clock::now();
  EXPECT_THROW(rank.Run({.kind = OperationKind::kJoin}), Stopped);
  EXPECT_LT(Clock::now() - start, seconds(10));
  stopper.join();
}

TEST(GlooBackendTest, StopEndsAWaitForData) {
  RunRanks(2, [](Rank& rank) {
    rank.Run({.kind = OperationKind::kJoin});
    std::vector<float> values(1 << 20);
    if (rank.rank() == 1) {
      EXPECT_EQ(Miss([&] { rank.Exchange({Receive(values, 0)}); }).kind, PeerTrouble::kLost);
      return;
    }
    std::thread stopper([&] {
      std::this_thread::sleep_for(milliseconds(50));
      rank.backend().Stop();
      rank.backend().Close();
    });
    const auto start = Clock::now();
    EXPECT_THROW(rank.Exchange({Receive(values, 1)}), Stopped);
    EXPECT_LT(Clock::now() - start, seconds(10));
    stopper.join();
  });
}

// Port scanners, browsers and lost souls come to the port; some say nothing, some too much.
TEST(GlooBackendTest, StrangersDoNotMatter) {
  const auto store = std::make_shared<HashStore>();
  std::vector<FileDescriptor> strangers;
  Rank first(store, 0, 2);
  std::string host;
  int port = 0;
  std::istringstream(store->Get("address/0")) >> host >> port;
  for (const std::string& text : {std::string(), std::string("GET / HTTP/1.1\r\nHost: you\r\n\r\n"),
                                  std::string(7, 'x'), std::string(100'000, '\0')}) {
    for (int i = 0; i < 50; ++i) {
      strangers.push_back(Connect(host, port, DeadlineAfter(seconds(5))));
      send(strangers.back().get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
  }
  std::thread peer([&] {
    Rank second(store, 1, 2);
    std::vector<float> value(1, 2);
    second.Run(Sum(value));
    EXPECT_THAT(value, ElementsAre(3));
  });
  std::vector<float> value(1, 1);
  first.Run(Sum(value));
  EXPECT_THAT(value, ElementsAre(3));
  peer.join();
}

TEST(GlooBackendTest, GroupsLeaveNothingBehind) {
  const auto one_group = [] {
    RunRanks(2, [](Rank& rank) {
      std::vector<float> value(1, 1);
      rank.Run(Sum(value));
    });
  };
  one_group();
  const int descriptors = CountDescriptors();
  for (int i = 0; i < 100; ++i) one_group();
  EXPECT_EQ(CountDescriptors(), descriptors);
}

}  // namespace
}  // namespace ddp
