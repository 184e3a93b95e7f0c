#include "ddp/collectives/roll_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ddp/store/hash_store.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

bool Never() { return false; }

// Counts the operations; from Hang on it lets everybody wait in vain.
class TestStore : public Store {
 public:
  TestStore() : Store(10s) {}
  void Hang() { hangs_ = true; }
  int num_operations() const { return num_operations_; }

 private:
  void Begin(Duration timeout) {
    ++num_operations_;
    if (!hangs_) return;
    std::this_thread::sleep_for(timeout);
    throw TimeoutError("no answer");
  }
  void DoSet(const std::string& key, const std::string& value, Duration timeout) override {
    Begin(timeout);
    store_.Set(key, value, timeout);
  }
  std::string DoGet(const std::string& key, Duration timeout) override {
    Begin(timeout);
    return store_.Get(key, timeout);
  }
  int64_t DoAdd(const std::string& key, int64_t amount, Duration timeout) override {
    Begin(timeout);
    return store_.Add(key, amount, timeout);
  }
  std::string DoCompareAndSet(const std::string& key, const std::string& expected,
                              const std::string& desired, Duration timeout) override {
    Begin(timeout);
    return store_.CompareAndSet(key, expected, desired, timeout);
  }
  void DoWait(const std::vector<std::string>& keys, Duration timeout) override {
    Begin(timeout);
    store_.Wait(keys, timeout);
  }
  bool DoCheck(const std::vector<std::string>& keys, Duration timeout) override {
    Begin(timeout);
    return store_.Check(keys, timeout);
  }
  bool DoDelete(const std::string& key, Duration timeout) override {
    Begin(timeout);
    return store_.Delete(key, timeout);
  }

  HashStore store_;
  std::atomic<bool> hangs_ = false;
  std::atomic<int> num_operations_ = 0;
};

TEST(RollCallTest, IsATenthOfTheTimeoutASecondAtMost) {
  EXPECT_EQ(RollCallTime(4s), 400ms);
  EXPECT_EQ(RollCallTime(1s), 100ms);
  EXPECT_EQ(RollCallTime(10min), 1s);
  EXPECT_EQ(RollCallTime(900ms), 0ms);
}

TEST(RollCallTest, NamesWhoDidNotAnswer) {
  TestStore store;
  for (const int rank : {0, 3}) AnswerRollCall(store, rank);
  EXPECT_THAT(CallRoll(store, 2, 5, 200ms, Never), Optional(ElementsAre(1, 4)));
}

TEST(RollCallTest, IsOverWhenAllHaveAnswered) {
  TestStore store;
  const auto start = Clock::now();
  std::thread other([&] {
    EXPECT_TRUE(AwaitRollCall(store, 10s));
    AnswerRollCall(store, 1);
  });
  EXPECT_THAT(CallRoll(store, 0, 2, 20s, Never), Optional(IsEmpty()));
  EXPECT_LT(Clock::now() - start, 10s);
  other.join();
}

TEST(RollCallTest, NobodyIsCalledWithoutACall) {
  TestStore store;
  EXPECT_FALSE(AwaitRollCall(store, 10ms));
}

// All run into their deadlines together; the price is linear in their number.
TEST(RollCallTest, AllWhoCallGetOneVerdict) {
  constexpr int kSize = 50;
  TestStore store;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    if (rank == 17) continue;
    ranks.emplace_back([&store, rank] {
      EXPECT_THAT(CallRoll(store, rank, kSize, 1s, Never), Optional(ElementsAre(17)));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  // An answer, the call, some waits and the verdict each, and one wait for each rank.
  EXPECT_LE(store.num_operations(), 15 * kSize);
}

TEST(RollCallTest, AStoreThatHangsOrACallerThatIsLostDelaysLittle) {
  TestStore store;
  store.Set("roll_call", "7");
  auto start = Clock::now();
  EXPECT_EQ(CallRoll(store, 1, 8, 300ms, Never), std::nullopt);
  EXPECT_LT(Clock::now() - start, 1s);
  store.Hang();
  start = Clock::now();
  EXPECT_EQ(CallRoll(store, 1, 8, 10s, Never), std::nullopt);
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST(RollCallTest, EndsWhenTheGroupHasFailed) {
  TestStore store;
  const auto start = Clock::now();
  EXPECT_EQ(CallRoll(store, 0, 2, 60s, [&] { return Clock::now() - start > 200ms; }), std::nullopt);
  EXPECT_LT(Clock::now() - start, 10s);
}

}  // namespace
}  // namespace ddp
