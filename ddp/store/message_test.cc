#include "ddp/store/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddp {
namespace {

using testing::ElementsAre;

TEST(MessageTest, ComesBackAsItWas) {
  const std::string binary("a\0b", 3);
  const std::string bytes =
      Encode({.kind = Message::Kind::kCompareAndSet, .number = -7, .strings = {"key", "", binary}});
  Message message;
  EXPECT_EQ(Decode(bytes, &message), bytes.size());
  EXPECT_EQ(message.kind, Message::Kind::kCompareAndSet);
  EXPECT_EQ(message.number, -7);
  EXPECT_THAT(message.strings, ElementsAre("key", "", binary));
}

TEST(MessageTest, IsReadOnceItIsComplete) {
  const std::string first = Encode({.strings = {"one"}});
  const std::string both = first + Encode({.strings = {"two"}});
  Message message;
  for (size_t size = 0; size < first.size(); ++size) {
    EXPECT_EQ(Decode(std::string_view(both).substr(0, size), &message), 0u) << size;
  }
  EXPECT_EQ(Decode(both, &message), first.size());
  EXPECT_THAT(message.strings, ElementsAre("one"));
}

TEST(MessageTest, RefusesWhatIsTooLong) {
  EXPECT_THROW(Encode({.strings = {std::string(kMaxMessageBytes, 'x')}}), std::invalid_argument);
  Message message;
  EXPECT_THROW(Decode("\xff\xff\xff\xff", &message), MalformedMessage);
}

TEST(MessageTest, RefusesLengthsThatContradict) {
  Message message;
  std::string bytes = Encode({.strings = {"key"}});
  bytes[sizeof(uint32_t) + 1 + sizeof(int64_t)] = 100;  // the string's length
  EXPECT_THROW(Decode(bytes, &message), MalformedMessage);
  const std::string too_short("\1\0\0\0\0", 5);
  EXPECT_THROW(Decode(too_short, &message), MalformedMessage);
}

}  // namespace
}  // namespace ddp
