#include "launch/models/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <stdexcept>

#include "ops/tensor/random.h"

namespace launch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class Sampling : public testing::Test {
 protected:
  ops::Generator generator_{1};
  Gpt model_{{.layers = 1, .width = 16, .heads = 2, .context = 8, .vocab = 50}, generator_};
};

TEST_F(Sampling, DependsOnTheSeedAlone) {
  const auto sample = [this](uint64_t seed) {
    return Sample(model_, {3}, {.max_tokens = 30, .seed = seed});
  };
  EXPECT_EQ(sample(1).size(), 30);
  EXPECT_EQ(sample(1), sample(1));
  EXPECT_NE(sample(1), sample(2));
}

TEST_F(Sampling, TemperatureZeroTakesTheLikeliest) {
  const auto greedy = Sample(model_, {3, 4}, {.max_tokens = 20, .temperature = 0, .seed = 1});
  EXPECT_EQ(greedy, Sample(model_, {3, 4}, {.max_tokens = 20, .temperature = 0, .seed = 2}));
  EXPECT_EQ(greedy, Sample(model_, {3, 4}, {.max_tokens = 20, .top_k = 1, .seed = 3}));
}

TEST_F(Sampling, TopKKeepsToTheLikeliest) {
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    seen.insert(
        Sample(model_, {7}, {.max_tokens = 1, .temperature = 5, .top_k = 3, .seed = seed})[0]);
  }
  EXPECT_EQ(seen.size(), 3);
}

TEST_F(Sampling, RefusesWhatMakesNoSense) {
  EXPECT_THROW(Sample(model_, {}, {}), std::invalid_argument);
  EXPECT_THAT(
      [this] { Sample(model_, {50}, {}); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("token 50, but the vocabulary has 50")));
  EXPECT_THROW(Sample(model_, {1}, {.temperature = -1}), std::invalid_argument);
  EXPECT_THROW(Sample(model_, {1}, {.top_k = -1}), std::invalid_argument);
  EXPECT_TRUE(model_.training());
}

TEST_F(Sampling, AModelThatDivergedSaysSo) {
  model_.Parameters()[0].tensor.Fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT([this] { Sample(model_, {1}, {}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("no numbers")));
  EXPECT_TRUE(model_.training());
}

TEST(Text, BytesAndBack) {
  EXPECT_EQ(TokensOf("a\xff"), (std::vector<int64_t>{97, 255}));
  EXPECT_EQ(TextOf({'a', '\n', '\t', 27, 127, 0xc3, 0xa4}), "a\n\t??\xc3\xa4");
}

}  // namespace
}  // namespace launch
