#include "ddp/data/mnist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <system_error>

#include "ddp/data/idx_testing.h"

namespace ddp {
namespace {

using ops::Shape;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

constexpr int kPixels = 28 * 28;

// Image i has all pixels 10 i, and label i.
std::string Images(uint32_t count) {
  std::string elements;
  for (uint32_t i = 0; i < count; ++i) elements += std::string(kPixels, static_cast<char>(10 * i));
  return IdxBytes({count, 28, 28}, elements);
}

std::string Labels(uint32_t count) {
  std::string elements;
  for (uint32_t i = 0; i < count; ++i) elements += static_cast<char>(i);
  return IdxBytes({count}, elements);
}

class MnistTest : public testing::Test {
 protected:
  template <class Error = std::invalid_argument>
  std::string MessageOfReading() {
    try {
      MnistDataset dataset(folder_, MnistDataset::Split::kTrain);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  void Write(const std::string& images, const std::string& labels) {
    WriteFile(folder_ / "train-images-idx3-ubyte", images);
    WriteFile(folder_ / "train-labels-idx1-ubyte", labels);
  }

  const std::filesystem::path folder_ = NewFolder();
};

TEST_F(MnistTest, GivesNormalisedImagesAndLabels) {
  Write(Images(3), Labels(3));
  const MnistDataset dataset(folder_, MnistDataset::Split::kTrain);
  ASSERT_EQ(dataset.size(), 3);
  const Batch batch = dataset.GetBatch(std::vector<int64_t>{2, 0});
  EXPECT_EQ(batch.inputs.Describe(), "float32[2, 1, 28, 28]");
  EXPECT_THAT(batch.targets.ToVector<int64_t>(), ElementsAre(2, 0));
  const auto values = batch.inputs.ToVector<float>();
  for (int i = 0; i < kPixels; ++i) {
    ASSERT_FLOAT_EQ(values[i], (20 / 255.0f - 0.1307f) / 0.3081f);
    ASSERT_FLOAT_EQ(values[kPixels + i], -0.1307f / 0.3081f);
  }
  const Example example = dataset.Get(1);
  EXPECT_EQ(example.input.shape(), (Shape{1, 28, 28}));
  EXPECT_EQ(example.target.shape(), Shape{});
  EXPECT_EQ(example.target.Item(), 1);
  EXPECT_THROW(dataset.Get(3), std::out_of_range);
}

TEST_F(MnistTest, KnowsTheUsualNames) {
  for (const std::string part : {"train", "t10k"}) {
    for (const std::string separator : {"-", "."}) {
      for (const bool compressed : {false, true}) {
        const auto folder = NewFolder();
        const auto write = [&](const std::string& name, const std::string& bytes) {
          WriteFile(folder / (name + (compressed ? ".gz" : "")), compressed ? Gzip(bytes) : bytes);
        };
        write(part + "-images" + separator + "idx3-ubyte", Images(4));
        write(part + "-labels" + separator + "idx1-ubyte", Labels(4));
        const auto split =
            part == "train" ? MnistDataset::Split::kTrain : MnistDataset::Split::kTest;
        EXPECT_EQ(MnistDataset(folder, split).size(), 4);
      }
    }
  }
}

TEST_F(MnistTest, MissingFile) {
  EXPECT_THAT(MessageOfReading<std::system_error>(),
              AllOf(HasSubstr("no MNIST file in '" + folder_.string() + "'"),
                    HasSubstr("looked for train-images-idx3-ubyte, train-images-idx3-ubyte.gz, "
                              "train-images.idx3-ubyte, train-images.idx3-ubyte.gz"),
                    HasSubstr("No such file or directory")));
}

TEST_F(MnistTest, NumbersDiffer) {
  Write(Images(3), Labels(4));
  EXPECT_THAT(MessageOfReading(), AllOf(HasSubstr("train-images-idx3-ubyte' has 3 images"),
                                        HasSubstr("train-labels-idx1-ubyte' has 4 labels")));
}

TEST_F(MnistTest, ALabelThatIsNoClass) {
  Write(Images(11), Labels(11));
  EXPECT_THAT(MessageOfReading(),
              EndsWith("train-labels-idx1-ubyte': label 10 is 10; classes go from 0 to 9"));
}

TEST_F(MnistTest, ImagesOfAnotherSize) {
  Write(IdxBytes({1, 2, 3}, "abcdef"), Labels(1));
  EXPECT_THAT(MessageOfReading(), EndsWith("expected images of 28 x 28 pixels, found 2 x 3"));
}

TEST_F(MnistTest, FilesMixedUp) {
  Write(Labels(3), Images(3));
  EXPECT_THAT(MessageOfReading(), AllOf(HasSubstr("train-images-idx3-ubyte': expected IDX images"),
                                        HasSubstr("found IDX data of 1 dimension")));
}

}  // namespace
}  // namespace ddp
