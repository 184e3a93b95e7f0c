#include "launch/models/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace launch {
namespace {

using testing::ThrowsMessage;

TEST(Catalog, ModelsByName) {
  EXPECT_EQ(FindModel("linear").task, Task::kRegression);
  EXPECT_THAT([] { FindModel("mpl"); },
              ThrowsMessage<std::invalid_argument>(
                  "unknown model 'mpl'; did you mean 'mlp'? Known: linear, mlp, convnet, "
                  "resnet, gpt"));
}

TEST(Catalog, EveryModelsOwnDataSuitsIt) {
  for (const ModelInfo& model : Models()) {
    EXPECT_NO_THROW(CheckGoTogether(model, ParseDataSource(model.data))) << model.name;
  }
}

TEST(Catalog, DataSources) {
  EXPECT_EQ(ParseDataSource("digits").name, "digits");
  EXPECT_EQ(ParseDataSource("mnist:/data/a:b").path, "/data/a:b");
  EXPECT_EQ(ParseDataSource("mnist:d").ToString(), "mnist:d");
  EXPECT_THAT([] { ParseDataSource("digit"); },
              ThrowsMessage<std::invalid_argument>(
                  "unknown data 'digit'; did you mean 'digits'? Known: cifar10:DIR, digits, "
                  "mnist:DIR, synthetic, text:FILE, tokens:GLOB"));
  EXPECT_THAT(
      [] { ParseDataSource("mnist"); },
      ThrowsMessage<std::invalid_argument>("'mnist' doesn't say where the data is: mnist:DIR"));
  EXPECT_THAT([] { ParseDataSource("digits:x"); },
              ThrowsMessage<std::invalid_argument>("'digits:x': digits takes no path"));
}

TEST(Catalog, LinearCannotReadImages) {
  EXPECT_THAT([] { CheckGoTogether(FindModel("linear"), ParseDataSource("mnist:d")); },
              ThrowsMessage<std::invalid_argument>(
                  "model linear can't learn from mnist; it takes: synthetic"));
}

}  // namespace
}  // namespace launch
