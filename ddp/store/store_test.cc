// What every store does, whatever holds it.
#include "ddp/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <thread>

#include "ddp/store/file_store.h"
#include "ddp/store/hash_store.h"
#include "ddp/store/prefix_store.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// One service and the ways to open it; each rank of a job would open it once.
class Service {
 public:
  virtual ~Service() = default;
  virtual std::shared_ptr<Store> Open() = 0;
};

class HashService : public Service {
 public:
  std::shared_ptr<Store> Open() override { return store_; }

 private:
  std::shared_ptr<Store> store_ = std::make_shared<HashStore>(30s);
};

class TcpService : public Service {
 public:
  std::shared_ptr<Store> Open() override {
    return std::make_shared<TcpStore>("127.0.0.1", server_.port(), TcpStoreOptions{.timeout = 30s});
  }

 private:
  TcpStoreServer server_;
};

class FileService : public Service {
 public:
  FileService() { std::remove(path_.c_str()); }
  std::shared_ptr<Store> Open() override {
    return std::make_shared<FileStore>(path_, FileStoreOptions{.timeout = 30s, .run_id = "test"});
  }

 private:
  const std::string path_ = testing::TempDir() + "/" +
                            testing::UnitTest::GetInstance()->current_test_info()->name()[0] +
                            std::string("-store");
};

class PrefixService : public Service {
 public:
  std::shared_ptr<Store> Open() override {
    return std::make_shared<PrefixStore>("group/", tcp_.Open());
  }

 private:
  TcpService tcp_;
};

template <class T>
class StoreTest : public testing::Test {
 protected:
  // Runs `body` on `count` threads, each with a store of its own.
  void OnThreads(int count, const std::function<void(int, Store&)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { body(i, *service_.Open()); });
    for (std::thread& thread : threads) thread.join();
  }

  T service_;
  const std::shared_ptr<Store> store_ = service_.Open();
};

using Services = testing::Types<HashService, TcpService, FileService, PrefixService>;
TYPED_TEST_SUITE(StoreTest, Services);

template <class F>
std::string TimeoutMessage(F f) {
  try {
    f();
  } catch (const TimeoutError& error) {
    return error.what();
  }
  return "no TimeoutError";
}

TYPED_TEST(StoreTest, GetReturnsWhatWasSet) {
  this->store_->Set("key", "value");
  EXPECT_EQ(this->store_->Get("key"), "value");
  this->store_->Set("key", "another");
  EXPECT_EQ(this->service_.Open()->Get("key"), "another");
}

TYPED_TEST(StoreTest, KeysAndValuesAreBytes) {
  const std::string bytes("\0\n\xff/../\0", 8);
  this->store_->Set(bytes, bytes);
  EXPECT_EQ(this->store_->Get(bytes), bytes);
  this->store_->Set("empty", "");
  EXPECT_TRUE(this->store_->Check({"empty"}));
  EXPECT_EQ(this->store_->Get("empty"), "");
}

TYPED_TEST(StoreTest, LargeValues) {
  std::string value(9 << 20, '\0');
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31 >> 8);
  this->store_->Set("large", value);
  EXPECT_TRUE(this->service_.Open()->Get("large") == value);
}

TYPED_TEST(StoreTest, AddCounts) {
  EXPECT_EQ(this->store_->Add("count", 5), 5);
  EXPECT_EQ(this->store_->Add("count", -7), -2);
  EXPECT_EQ(this->store_->Get("count"), "-2");
  this->store_->Set("count", "40");
  EXPECT_EQ(this->store_->Add("count", 2), 42);
}

TYPED_TEST(StoreTest, AddRefusesWhatIsNoNumber) {
  this->store_->Set("name", "seven");
  EXPECT_THROW(this->store_->Add("name", 1), std::invalid_argument);
  EXPECT_EQ(this->store_->Get("name"), "seven");
  this->store_->Set("largest", std::to_string(std::numeric_limits<int64_t>::max()));
  EXPECT_THROW(this->store_->Add("largest", 1), std::invalid_argument);
}

TYPED_TEST(StoreTest, CompareAndSet) {
  Store& store = *this->store_;
  EXPECT_EQ(store.CompareAndSet("key", "old", "new"), "");
  EXPECT_FALSE(store.Check({"key"}));
  EXPECT_EQ(store.CompareAndSet("key", "", "first"), "first");
  EXPECT_EQ(store.CompareAndSet("key", "", "second"), "first");
  EXPECT_EQ(store.CompareAndSet("key", "first", "second"), "second");
  EXPECT_EQ(store.Get("key"), "second");
}

TYPED_TEST(StoreTest, CheckAndDelete) {
  Store& store = *this->store_;
  store.Set("a", "1");
  EXPECT_TRUE(store.Check({"a"}));
  EXPECT_TRUE(store.Check({}));
  EXPECT_FALSE(store.Check({"a", "b"}));
  EXPECT_TRUE(store.Delete("a"));
  EXPECT_FALSE(store.Delete("a"));
  EXPECT_FALSE(store.Check({"a"}));
}

TYPED_TEST(StoreTest, GetWaitsForAnotherRank) {
  std::thread later([&] {
    const auto store = this->service_.Open();
    EXPECT_EQ(store->Get("question"), "6 * 7");
    store->Set("answer", "42");
  });
  this->store_->Set("question", "6 * 7");
  EXPECT_EQ(this->store_->Get("answer"), "42");
  later.join();
}

TYPED_TEST(StoreTest, WaitNeedsAllKeys) {
  std::thread later([&] {
    const auto store = this->service_.Open();
    for (const char* key : {"c", "a", "b"}) store->Set(key, "");
  });
  this->store_->Wait({"a", "b", "c"});
  EXPECT_TRUE(this->store_->Check({"a", "b", "c"}));
  this->store_->Wait({});
  later.join();
}

TYPED_TEST(StoreTest, TimeoutsNameWhatIsMissing) {
  this->store_->Set("here", "");
  EXPECT_THAT(
      TimeoutMessage([&] {
        this->store_->Wait({"gone", "here", "absent"}, 30ms);
      }),
      AllOf(HasSubstr("gone"), HasSubstr("absent"), Not(HasSubstr("here")), HasSubstr("0.03 s")));
  EXPECT_THAT(TimeoutMessage([&] { this->store_->Get("gone", 0ms); }), HasSubstr("gone'"));
  EXPECT_EQ(this->store_->Get("here", 0ms), "");
}

TYPED_TEST(StoreTest, WaitsAtLeastUntilTheDeadline) {
  const auto start = Clock::now();
  EXPECT_THROW(this->store_->Get("gone", 50ms), TimeoutError);
  EXPECT_GE(Clock::now() - start, 49ms);
}

TYPED_TEST(StoreTest, AWaitingThreadHoldsUpNoOther) {
  Store& store = *this->store_;
  std::thread waiting([&] { EXPECT_EQ(store.Get("late"), "now"); });
  // Were it held up, this would end at the store's timeout.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(store.Add("count", 1), i + 1);
  EXPECT_THROW(store.Get("never", 1ms), TimeoutError);
  store.Set("late", "now");
  waiting.join();
}

TYPED_TEST(StoreTest, AddIsAtomic) {
  constexpr int kThreads = 8;
  constexpr int kTimes = 50;
  std::vector<std::vector<int64_t>> sums(kThreads);
  this->OnThreads(kThreads, [&](int i, Store& store) {
    for (int k = 0; k < kTimes; ++k) sums[i].push_back(store.Add("count", 1));
  });
  std::set<int64_t> distinct;
  for (const auto& mine : sums) {
    EXPECT_TRUE(std::ranges::is_sorted(mine));
    distinct.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(distinct.size(), kThreads * kTimes);
  EXPECT_EQ(*distinct.rbegin(), kThreads * kTimes);
}

TYPED_TEST(StoreTest, CompareAndSetHasOneWinner) {
  constexpr int kThreads = 8;
  std::vector<std::string> seen(kThreads);
  this->OnThreads(kThreads, [&](int i, Store& store) {
    seen[i] = store.CompareAndSet("leader", "", "rank " + std::to_string(i));
  });
  EXPECT_THAT(seen, testing::Each(this->store_->Get("leader")));
}

TYPED_TEST(StoreTest, RanksMeet) {
  constexpr int kRanks = 8;
  std::vector<std::string> keys;
  for (int i = 0; i < kRanks; ++i) keys.push_back("rank/" + std::to_string(i));
  this->OnThreads(kRanks, [&](int i, Store& store) {
    store.Set(keys[i], std::to_string(i * i));
    store.Wait(keys);
    for (int k = 0; k < kRanks; ++k) EXPECT_EQ(store.Get(keys[k]), std::to_string(k * k));
  });
}

TEST(PrefixStoreTest, KeepsKeysApart) {
  const auto whole = std::make_shared<HashStore>();
  PrefixStore a("a/", whole);
  PrefixStore b("b/", whole);
  a.Set("key", "1");
  b.Set("key", "2");
  EXPECT_EQ(a.Get("key"), "1");
  EXPECT_EQ(whole->Get("b/key"), "2");
  EXPECT_EQ(a.timeout(), whole->timeout());
  EXPECT_THAT(TimeoutMessage([&] { a.Get("none", 0ms); }), HasSubstr("'a/none'"));
  EXPECT_THROW(PrefixStore("p/", nullptr), std::invalid_argument);
}

}  // namespace
}  // namespace ddp
