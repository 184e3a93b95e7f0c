#include "ddp/data/cifar10.h"

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
using testing::HasSubstr;
using testing::ThrowsMessage;

// A record whose channels are even areas of the given values.
std::string Record(int label, int red, int green, int blue) {
  std::string record(1, static_cast<char>(label));
  for (const int value : {red, green, blue}) record += std::string(1024, static_cast<char>(value));
  return record;
}

std::filesystem::path FolderWith(const std::string& name, const std::string& train_bytes,
                                 const std::string& test_bytes) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / name;
  std::filesystem::create_directory(folder);
  for (int i = 1; i <= 5; ++i) {
    std::ofstream(folder / ("data_batch_" + std::to_string(i) + ".bin")) << train_bytes;
  }
  std::ofstream(folder / "test_batch.bin") << test_bytes;
  return folder;
}

TEST(Cifar10, ReadsImagesAndClasses) {
  const auto folder =
      FolderWith("good", Record(3, 0, 128, 255) + Record(9, 1, 2, 3), Record(7, 10, 20, 30));
  const Cifar10Dataset train(folder, Cifar10Dataset::Split::kTrain);
  ASSERT_EQ(train.size(), 10);
  const Batch batch = train.GetBatch(std::vector<int64_t>{8, 1});
  EXPECT_EQ(batch.inputs.Describe(), "float32[2, 3, 32, 32]");
  EXPECT_EQ(batch.targets.ToVector<int64_t>(), (std::vector<int64_t>{3, 9}));
  const float* values = batch.inputs.data<float>();
  EXPECT_NEAR(values[0], -0.4914 / 0.2470, 1e-5);
  EXPECT_NEAR(values[1024], (128 / 255.0 - 0.4822) / 0.2435, 1e-5);
  EXPECT_NEAR(values[3 * 1024 - 1], (1 - 0.4465) / 0.2616, 1e-5);
  const Cifar10Dataset test(folder, Cifar10Dataset::Split::kTest);
  ASSERT_EQ(test.size(), 1);
  EXPECT_EQ(test.Get(0).target.Item(), 7);
}

TEST(Cifar10, NamesMissingAndDamagedFiles) {
  EXPECT_THROW(Cifar10Dataset("/nowhere", Cifar10Dataset::Split::kTest), std::system_error);
  const auto folder = FolderWith("bad", Record(1, 0, 0, 0) + "x", Record(10, 0, 0, 0));
  EXPECT_THAT([&] { Cifar10Dataset(folder, Cifar10Dataset::Split::kTrain); },
              ThrowsMessage<std::invalid_argument>(
                  AllOf(HasSubstr("data_batch_1.bin"), HasSubstr("3074 bytes"))));
  EXPECT_THAT([&] { Cifar10Dataset(folder, Cifar10Dataset::Split::kTest); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("label of record 0 is 10")));
}

}  // namespace
}  // namespace ddp
