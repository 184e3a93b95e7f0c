// MNIST: 60,000 + 10,000 handwritten digits, from the IDX files of the original (or of a set with
// the same layout, such as Fashion-MNIST).
//
//   ddp::MnistDataset train("data/mnist", ddp::MnistDataset::Split::kTrain);
//
// An example's input is float32[1, 28, 28], normalised (pixels.h); its target is an int64 scalar,
// the class from 0 to 9. Images stay in memory as bytes, 47 MB for the training set, and are
// normalised when a batch is made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "ddp/data/dataset.h"

namespace ddp {

class MnistDataset : public Dataset {
 public:
  static constexpr int64_t kSide = 28;
  static constexpr int64_t kNumClasses = 10;

  enum class Split { kTrain, kTest };

  // Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (or t10k-...) from `folder`; also
  // under the names with a dot, train-images.idx3-ubyte, and with .gz. Throws std::system_error
  // where one is missing, with the names that were looked for, and std::invalid_argument for
  // damaged files, other sizes, labels that aren't classes, and numbers that differ.
  MnistDataset(const std::filesystem::path& folder, Split split);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  Example Get(int64_t index) const override;
  Batch GetBatch(std::span<const int64_t> indices) const override;

 private:
  std::vector<uint8_t> pixels_;  // [size, 28, 28]
  std::vector<uint8_t> labels_;
};

}  // namespace ddp
