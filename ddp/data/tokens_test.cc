#include "ddp/data/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ddp {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string WriteShard(const std::string& name, const std::vector<uint16_t>& tokens) {
  std::string bytes;
  for (const uint16_t token : tokens) {
    bytes += static_cast<char>(token & 0xff);
    bytes += static_cast<char>(token >> 8);
  }
  return WriteFile(name, bytes);
}

std::vector<uint16_t> Counting(int count) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<uint16_t>(i));
  return tokens;
}

TEST(Text, BytesAreTokens) {
  const TokenDataset data({OpenText(WriteFile("text",
                                              "abc\xff"
                                              "de"))},
                          {.context = 2});
  ASSERT_EQ(data.size(), 2);
  EXPECT_THAT(data.Get(0).input.ToVector<int64_t>(), ElementsAre('a', 'b'));
  EXPECT_THAT(data.Get(0).target.ToVector<int64_t>(), ElementsAre('b', 'c'));
  const Batch batch = data.GetBatch(std::vector<int64_t>{1, 0});
  EXPECT_EQ(batch.inputs.Describe(), "int64[2, 2]");
  EXPECT_THAT(batch.inputs.ToVector<int64_t>(), ElementsAre('c', 255, 'a', 'b'));
  EXPECT_THAT(batch.targets.ToVector<int64_t>(), ElementsAre(255, 'd', 'b', 'c'));
  EXPECT_THROW(data.Get(2), std::out_of_range);
}

TEST(Text, PartsAreRangesOfTokens) {
  const TokenShard whole = OpenText(WriteFile("parts", "abcdefghij"));
  const TokenDataset data({whole.Part(6, 10)}, {.context = 3});
  ASSERT_EQ(data.size(), 1);
  EXPECT_THAT(data.Get(0).input.ToVector<int64_t>(), ElementsAre('g', 'h', 'i'));
}

TEST(Shards, AreLittleEndianAndInTheOrderOfTheirNames) {
  WriteShard("order_1.bin", {7, 8, 9});
  WriteShard("order_0.bin", {258, 50256, 2});
  const TokenDataset data(OpenTokenShards(testing::TempDir() + "/order_*.bin"),
                          {.context = 2, .vocab = 50257});
  ASSERT_EQ(data.size(), 2);
  EXPECT_THAT(data.Get(0).input.ToVector<int64_t>(), ElementsAre(258, 50256));
  EXPECT_THAT(data.Get(1).target.ToVector<int64_t>(), ElementsAre(8, 9));
}

// Numbers of tokens around those that fill whole batches, where loaders have aborted.
TEST(Shards, AnyLengthGivesTheWindowsThatFit) {
  constexpr int64_t kContext = 4;
  for (const int count : {5, 8, 9, 63, 64, 65}) {
    const TokenDataset data(OpenTokenShards(WriteShard("length.bin", Counting(count))),
                            {.context = kContext});
    EXPECT_EQ(data.size(), (count - 1) / kContext);
    EXPECT_EQ(data.Get(data.size() - 1).target.ToVector<int64_t>().back(), data.size() * kContext);
  }
}

TEST(Shards, TooShortOnesSayWhatWouldDo) {
  for (const int count : {0, 1, 4}) {
    const std::string path = WriteShard("short.bin", Counting(count));
    EXPECT_THAT([&] { TokenDataset(OpenTokenShards(path), {.context = 4}); },
                ThrowsMessage<std::invalid_argument>(
                    AllOf(HasSubstr(path), HasSubstr("needs 5"),
                          HasSubstr(count == 4 ? "up to 3 would do" : "no context would do"))));
  }
}

TEST(Shards, OddSizesAndMissingFilesAreNamed) {
  const std::string path = WriteFile("odd.bin", "abc");
  EXPECT_THAT([&] { OpenTokenShards(path); },
              ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(path), HasSubstr("3 bytes"))));
  EXPECT_THAT([] { OpenTokenShards("/nowhere/*.bin"); },
              ThrowsMessage<std::system_error>(HasSubstr("/nowhere/*.bin")));
  EXPECT_THROW(OpenText("/nowhere/text"), std::system_error);
  EXPECT_THROW(OpenText(testing::TempDir()), std::system_error);
}

TEST(Shards, TokensBeyondTheVocabularyAreNamed) {
  const std::string path = WriteShard("beyond.bin", {1, 2, 3, 4, 600, 5, 6});
  const TokenDataset data(OpenTokenShards(path), {.context = 3, .vocab = 512});
  EXPECT_THAT(data.Get(0).input.ToVector<int64_t>(), ElementsAre(1, 2, 3));
  EXPECT_THAT([&] { data.Get(1); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr(path), HasSubstr("token 4 is 600"), HasSubstr("has 512"))));
}

}  // namespace
}  // namespace ddp
