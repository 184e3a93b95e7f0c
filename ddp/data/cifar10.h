// CIFAR-10: 50,000 + 10,000 colour images of ten kinds of things, in its binary version.
//
// An example's input is float32[3, 32, 32], with each channel's mean and standard deviation over
// the training set taken out; its target is an int64 scalar, the class from 0 to 9.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ddp/data/dataset.h"
#include "ddp/mapped_file.h"

namespace ddp {

class Cifar10Dataset : public Dataset {
 public:
  static constexpr int64_t kSide = 32;
  static constexpr int64_t kChannels = 3;
  static constexpr int64_t kNumClasses = 10;

  enum class Split { kTrain, kTest };

  // Maps data_batch_1.bin ... data_batch_5.bin, or test_batch.bin, of `folder`. Throws
  // std::system_error for one that is missing, and std::invalid_argument, with the path, for a
  // size that isn't a number of whole records, and for a label that isn't a class.
  Cifar10Dataset(const std::filesystem::path& folder, Split split);

  int64_t size() const override { return static_cast<int64_t>(records_.size()); }
  Example Get(int64_t index) const override;
  Batch GetBatch(std::span<const int64_t> indices) const override;

 private:
  std::vector<MappedFile> files_;
  std::vector<const uint8_t*> records_;  // a label, then red, green and blue of all pixels
};

}  // namespace ddp
