#include "ddp/data/cifar10.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace ddp {
namespace {

using ops::Tensor;

constexpr int64_t kPixels = Cifar10Dataset::kSide * Cifar10Dataset::kSide;
constexpr int64_t kValues = Cifar10Dataset::kChannels * kPixels;
constexpr int64_t kRecordBytes = 1 + kValues;

// Of the training set's pixels, from 0 to 1, by channel.
constexpr float kMeans[] = {0.4914f, 0.4822f, 0.4465f};
constexpr float kDeviations[] = {0.2470f, 0.2435f, 0.2616f};

std::vector<std::string> Names(Cifar10Dataset::Split split) {
  if (split == Cifar10Dataset::Split::kTest) return {"test_batch.bin"};
  std::vector<std::string> names;
  for (int i = 1; i <= 5; ++i) names.push_back(fmt::format("data_batch_{}.bin", i));
  return names;
}

void CheckSize(const std::string& path, int64_t num_bytes) {
  if (num_bytes > 0 && num_bytes % kRecordBytes == 0) return;
  throw std::invalid_argument(fmt::format("'{}': expected records of {} bytes, but it has {} bytes",
                                          path, kRecordBytes, num_bytes));
}

void CheckLabel(const std::string& path, int64_t record, int label) {
  if (label < Cifar10Dataset::kNumClasses) return;
  throw std::invalid_argument(
      fmt::format("'{}': the label of record {} is {}; classes go from 0 "
                  "to {}",
                  path, record, label, Cifar10Dataset::kNumClasses - 1));
}

void Normalize(const uint8_t* values, float* normalized) {
  for (int64_t channel = 0; channel < Cifar10Dataset::kChannels; ++channel) {
    const float scale = 1 / (255 * kDeviations[channel]);
    const float shift = kMeans[channel] / kDeviations[channel];
    for (int64_t i = 0; i < kPixels; ++i) {
      *normalized++ = static_cast<float>(*values++) * scale - shift;
    }
  }
}

}  // namespace

Cifar10Dataset::Cifar10Dataset(const std::filesystem::path& folder, Split split) {
  for (const std::string& name : Names(split)) {
    const std::string path = folder / name;
    MappedFile file = MapFile(path);
    CheckSize(path, file.num_bytes);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(file.bytes.get());
    for (int64_t i = 0; i < file.num_bytes / kRecordBytes; ++i) {
      CheckLabel(path, i, bytes[i * kRecordBytes]);
      records_.push_back(bytes + i * kRecordBytes);
    }
    files_.push_back(std::move(file));
  }
}

Example Cifar10Dataset::Get(int64_t index) const {
  const Batch batch = GetBatch({&index, 1});
  return {batch.inputs.View({kChannels, kSide, kSide}), batch.targets.View({})};
}

Batch Cifar10Dataset::GetBatch(std::span<const int64_t> indices) const {
  CheckIndices(indices);
  const auto count = static_cast<int64_t>(indices.size());
  const Batch batch = {Tensor::Empty({count, kChannels, kSide, kSide}),
                       Tensor::Empty({count}, {.dtype = ops::DType::kInt64})};
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* const record = records_[indices[i]];
    batch.targets.data<int64_t>()[i] = record[0];
    Normalize(record + 1, batch.inputs.data<float>() + i * kValues);
  }
  return batch;
}

}  // namespace ddp
