// What ranks make of values that no rank has written: they say so, and do nothing else.
#include "ddp/collectives/store_values.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ddp/collectives/failure.h"
#include "ddp/collectives/meeting.h"
#include "ddp/errors.h"
#include "ddp/store/hash_store.h"

namespace ddp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kMax = std::numeric_limits<int>::max();

// What the CollectiveError says that `function` throws; "" when it throws none.
std::string MessageOf(const std::function<void()>& function) {
  try {
    function();
  } catch (const CollectiveError& error) {
    return error.what();
  }
  return "";
}

// As another program, an older version or a broken disk might leave it.
class Spoiler {
 public:
  explicit Spoiler(uint32_t seed) : random_(seed) {}

  std::string Spoil(std::string value) {
    for (int i = Below(3); i >= 0; --i) {
      const size_t place = Below(value.size() + 1);
      const char byte = Below(2) == 0 ? "0123456789 -+:\n\0"[Below(16)] : Below(256);
      switch (Below(4)) {
        case 0:
          value.resize(place);
          break;
        case 1:
          value.insert(place, 1, byte);
          break;
        case 2:
          value.erase(place, 1);
          break;
        case 3:
          value.replace(place, 1, 1, byte);
          break;
      }
    }
    return value;
  }

 private:
  int Below(size_t limit) {
    return std::uniform_int_distribution<int>(0, static_cast<int>(limit) - 1)(random_);
  }

  std::mt19937 random_;
};

TEST(StoreValuesTest, Numbers) {
  EXPECT_EQ(ParseNumber("0", 9), 0);
  EXPECT_EQ(ParseNumber("2147483647", kMax), kMax);
  EXPECT_EQ(ParseNumber("fF", 255, 16), 255);
  for (const char* const text : {"", " 1", "1 ", "+1", "-1", "1x", "0x1", "10", "99999999999"}) {
    EXPECT_EQ(ParseNumber(text, 9), std::nullopt) << text;
  }
}

TEST(StoreValuesTest, Ranks) {
  for (const std::vector<int>& ranks : {std::vector<int>{}, {0}, {1, 2, 11}}) {
    EXPECT_EQ(DecodeRanks("key", EncodeRanks(ranks), 12), ranks);
  }
  for (const char* const text : {"", "all", "1 1", "2 1", "12", "-1", "1 x", "none 1"}) {
    EXPECT_EQ(MessageOf([&] { DecodeRanks("key", text, 12); }),
              fmt::format("the store's key 'key' holds what no rank has written: '{}'", text));
  }
}

TEST(StoreValuesTest, TheMessageIsShortAndPrintable) {
  EXPECT_EQ(
      MessageOf([] { ThrowIllegible("key", "a\n\xff" + std::string(100, 'b')); }),
      "the store's key 'key' holds what no rank has written: 'a??" + std::string(57, 'b') + "...'");
}

TEST(StoreValuesTest, Failures) {
  HashStore store;
  EXPECT_FALSE(FindFailure(store));
  const Failure mine{Failure::Kind::kTimeout, 3, "rank 3 waited: long"};
  for (const char* const text : {"", "t", "t3", "x3:no such kind", "t:no rank", "t-3:", "t3x:"}) {
    store.Set("failure", text);
    EXPECT_THAT(MessageOf([&] { FindFailure(store); }),
                HasSubstr("key 'failure' holds what no rank has written"))
        << text;
    EXPECT_EQ(AgreeOnFailure(store, mine).reason, mine.reason) << text;
  }
}

TEST(StoreValuesTest, SpoiledFailures) {
  HashStore store;
  Spoiler spoiler(1);
  for (int i = 0; i < 10'000; ++i) {
    store.Set("failure", spoiler.Spoil("t12:rank 12 waited 4 s for rank 1"));
    EXPECT_THAT(MessageOf([&] {
                  const auto failure = FindFailure(store);
                  ASSERT_TRUE(failure);
                  EXPECT_GE(failure->rank, 0);
                }),
                testing::AnyOf(IsEmpty(), HasSubstr("'failure'")));
  }
}

// A group of 2 over a store that has `value` at `key` already.
Meeting Meet(int rank, const std::string& key, const std::string& value) {
  auto store = std::make_shared<HashStore>();
  store->Set("group/1/" + key, value);
  return MeetMembers({.backend = "gloo", .rank = rank, .world_size = 2, .store = store});
}

TEST(StoreValuesTest, Members) {
  const Meeting meeting = Meet(1, "members", "+2\ngloo\na\n\n2\ngloo\nb\nc\n");
  ASSERT_EQ(meeting.members.size(), 2u);
  EXPECT_EQ(meeting.members[0].host, "a");
  EXPECT_EQ(meeting.members[1].address, "c");
  for (const char* const value :
       {"", "+", "2\ngloo\na\n\n", "+2\ngloo\na\n\n", "+2\ngloo\na\n\n2\ngloo\nb\nc",
        "+0\ngloo\na\n\n", "+2 \ngloo\na\n\n2\ngloo\nb\nc\n", "+x\ngloo\na\n\n2\ngloo\nb\nc\n"}) {
    EXPECT_THAT(MessageOf([&] { Meet(1, "members", value); }),
                HasSubstr("key 'members' holds what no rank has written"))
        << value;
  }
  EXPECT_EQ(MessageOf([] { Meet(1, "members", "-no agreement"); }), "no agreement");
}

TEST(StoreValuesTest, RankZeroTellsAllOfAMemberThatItCannotRead) {
  EXPECT_EQ(Meet(0, "member/1", "2\ngloo\na\n\n").members.size(), 2u);
  for (const char* const value :
       {"", "2", "2\ngloo\na\n", "2\ngloo\na\n\n2\ngloo\na\n\n", "two\ngloo\na\n\n"}) {
    EXPECT_THAT(MessageOf([&] { Meet(0, "member/1", value); }),
                HasSubstr("key 'member/1' holds what no rank has written"))
        << value;
  }
}

TEST(StoreValuesTest, SpoiledMembers) {
  Spoiler spoiler(2);
  for (int i = 0; i < 10'000; ++i) {
    // Any other error ends the test.
    MessageOf([&] {
      const std::string value = spoiler.Spoil("+2\ngloo\na\n\n2\ngloo\nb\nc\n");
      EXPECT_EQ(Meet(1, "members", value).members.size(), 2u);
    });
    MessageOf([&] {
      EXPECT_EQ(Meet(0, "member/1", spoiler.Spoil("2\ngloo\na\n\n")).members.size(), 2u);
    });
  }
}

}  // namespace
}  // namespace ddp
