#include "ddp/checkpoint/testing.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "ops/tensor/random.h"

namespace ddp {

std::string NewDirectory(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

Checkpoint CheckpointOf(int64_t step, int64_t num_elements) {
  ops::Generator generator(step);
  const ops::Shape shape = {num_elements};
  return {.step = step,
          .epoch = step / 10,
          .samples_in_epoch = step % 10,
          .counters = {{"batches", 2 * step}},
          .settings = {{"model", "mlp"}, {"hidden", "64,\"\n"}},
          .tensors = {{"model",
                       {{"0.weight", ops::Tensor::Randn(shape, generator)},
                        {"0.bias", ops::Tensor::Randn({3, 2}, generator).To(ops::DType::kBFloat16)},
                        {"none", ops::Tensor::Zeros({0, 3})}}},
                      {"optimizer",
                       {{"0.weight.exp_avg", ops::Tensor::Randn(shape, generator)},
                        {"0.weight.step", ops::Tensor::Scalar(static_cast<double>(step),
                                                              {.dtype = ops::DType::kInt64})}}}}};
}

void ExpectSame(const Checkpoint& one, const Checkpoint& other) {
  EXPECT_EQ(one.step, other.step);
  EXPECT_EQ(one.epoch, other.epoch);
  EXPECT_EQ(one.samples_in_epoch, other.samples_in_epoch);
  EXPECT_EQ(one.counters, other.counters);
  EXPECT_EQ(one.settings, other.settings);
  ASSERT_EQ(one.tensors.size(), other.tensors.size());
  for (const auto& [group, tensors] : one.tensors) {
    const auto& others = other.Group(group);
    ASSERT_EQ(tensors.size(), others.size()) << group;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto& [name, tensor] = tensors[i];
      EXPECT_EQ(name, others[i].name);
      ASSERT_EQ(tensor.Describe(), others[i].tensor.Describe()) << name;
      EXPECT_EQ(std::memcmp(tensor.raw_data(), others[i].tensor.raw_data(), tensor.num_bytes()), 0)
          << name;
    }
  }
}

void FlipBit(const std::string& path, int64_t place) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  ASSERT_TRUE(file) << path;
  const auto from = place < 0 ? std::ios::end : std::ios::beg;
  const auto byte = static_cast<char>(file.seekg(place, from).get() ^ 4);
  file.seekp(place, from).put(byte);
}

}  // namespace ddp
