#include "ddp/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <system_error>

namespace ddp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& bytes) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string WithHeader(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

std::string BytesOf(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

void ExpectRefused(const std::string& bytes, const std::string& message) {
  const std::string path = WriteFile("refused.safetensors", bytes);
  try {
    ReadSafetensors(path);
    ADD_FAILURE() << "accepted, expected: " << message;
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
    EXPECT_THAT(error.what(), HasSubstr(path));
  }
}

TEST(ReadSafetensors, GivesTensorsInTheOrderOfTheHeader) {
  const std::string header = R"({"__metadata__":{"from":"a test"},)"
                             R"("w":{"dtype":"F32","shape":[2,2],"data_offsets":[4,20]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("none":{"dtype":"I64","shape":[0,3],"data_offsets":[20,20]}}   )";
  const auto tensors =
      ReadSafetensors(WriteFile("good.safetensors", WithHeader(header, BytesOf({5, 1, 2, 3, 4}))));
  ASSERT_EQ(tensors.size(), 3);
  EXPECT_EQ(tensors[0].name, "w");
  EXPECT_EQ(tensors[0].tensor.Describe(), "float32[2, 2]");
  EXPECT_THAT(tensors[0].tensor.ToVector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(tensors[1].name, "b");
  EXPECT_THAT(tensors[1].tensor.ToVector<float>(), ElementsAre(5));
  EXPECT_EQ(tensors[2].tensor.Describe(), "int64[0, 3]");
}

TEST(ReadSafetensors, NamesAMissingFile) {
  EXPECT_THROW(ReadSafetensors("/nowhere/weights.safetensors"), std::system_error);
}

TEST(ReadSafetensors, RefusesWhatTheFileCannotHold) {
  const std::string good = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ExpectRefused("", "0 bytes, shorter than its header says");
  ExpectRefused(std::string(8, '\xff'), "shorter than its header says");
  ExpectRefused(WithHeader(good, BytesOf({1})), "'w': it lies at [0, 8], outside the 4 bytes");
  ExpectRefused(WithHeader("{\"w\":", ""), "not a JSON object");
  ExpectRefused(WithHeader(R"({"w":{"dtype":"F32"}})", ""), "shape");
  ExpectRefused(WithHeader(R"({"w":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", "12345678"),
                "'w': unknown dtype Q4");
  ExpectRefused(WithHeader(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", "12345678"),
                "'w': F32 of shape [3] has 8 bytes");
  ExpectRefused(
      WithHeader(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                 ""),
      "more than 2^59 elements");
}

TEST(WriteSafetensors, ReadsBackTheSameBits) {
  const std::string path = ::testing::TempDir() + "/written.safetensors";
  std::vector<ops::NamedTensor> tensors;
  for (const ops::DType dtype : ops::kAllDTypes) {
    const auto bytes = ops::Tensor::FromVector<double>({1, 2, 3.5, 0, 7, 250}, {2, 3}).To(dtype);
    tensors.push_back({"blocks.0." + std::string(Name(dtype)), bytes});
  }
  tensors.push_back({"none", ops::Tensor::Zeros({0, 3})});
  tensors.push_back({"scalar", ops::Tensor::Scalar(4)});
  WriteSafetensors(path, tensors, {{"heads", "4"}, {"quote", "\"\n"}});
  const auto read = ReadSafetensors(path);
  ASSERT_EQ(read.size(), tensors.size());
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].name, tensors[i].name);
    EXPECT_EQ(read[i].tensor.Describe(), tensors[i].tensor.Describe());
    EXPECT_EQ(std::memcmp(read[i].tensor.raw_data(), tensors[i].tensor.raw_data(),
                          read[i].tensor.num_bytes()),
              0);
  }
  EXPECT_EQ(ReadSafetensorsMetadata(path),
            (SafetensorsMetadata{{"heads", "4"}, {"quote", "\"\n"}}));
}

TEST(WriteSafetensors, ValuesAreAligned) {
  const std::string path = ::testing::TempDir() + "/aligned.safetensors";
  WriteSafetensors(path, {{"w", ops::Tensor::Scalar(1)}});
  std::ifstream file(path, std::ios::binary);
  uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  EXPECT_EQ(header_bytes % 8, 0);
  EXPECT_TRUE(ReadSafetensorsMetadata(path).empty());
}

TEST(WriteSafetensors, RefusesANameTwice) {
  const ops::Tensor one = ops::Tensor::Scalar(1);
  const std::string path = ::testing::TempDir() + "/twice.safetensors";
  EXPECT_THROW(WriteSafetensors(path, {{"w", one}, {"w", one}}), std::invalid_argument);
  EXPECT_THROW(WriteSafetensors(path, {{"__metadata__", one}}), std::invalid_argument);
  EXPECT_THROW(WriteSafetensors("/nowhere/w.safetensors", {{"w", one}}), std::system_error);
}

}  // namespace
}  // namespace ddp
