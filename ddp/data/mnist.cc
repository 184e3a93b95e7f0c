#include "ddp/data/mnist.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "ddp/data/idx_file.h"
#include "ddp/data/pixels.h"

namespace ddp {
namespace {

using ops::Tensor;

constexpr int64_t kPixels = MnistDataset::kSide * MnistDataset::kSide;

// The first of "<stem>-<kind>" and its variants that is in the folder.
std::filesystem::path Find(const std::filesystem::path& folder, const std::string& stem,
                           const std::string& kind) {
  std::string looked_for;
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      const std::string name = stem + separator + kind + suffix;
      if (std::filesystem::exists(folder / name)) return folder / name;
      looked_for += (looked_for.empty() ? "" : ", ") + name;
    }
  }
  throw std::system_error(
      std::make_error_code(std::errc::no_such_file_or_directory),
      fmt::format("no MNIST file in '{}': looked for {}", folder.string(), looked_for));
}

void CheckSides(const std::filesystem::path& path, const IdxFile& images) {
  const int64_t rows = images.extents[1], columns = images.extents[2];
  if (rows == MnistDataset::kSide && columns == MnistDataset::kSide) return;
  throw std::invalid_argument(fmt::format("'{}': expected images of {} x {} pixels, found {} x {}",
                                          path.string(), MnistDataset::kSide, MnistDataset::kSide,
                                          rows, columns));
}

void CheckLabels(const std::filesystem::path& path, const std::vector<uint8_t>& labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= MnistDataset::kNumClasses) {
      throw std::invalid_argument(fmt::format("'{}': label {} is {}; classes go from 0 to {}",
                                              path.string(), i, labels[i],
                                              MnistDataset::kNumClasses - 1));
    }
  }
}

}  // namespace

MnistDataset::MnistDataset(const std::filesystem::path& folder, Split split) {
  const std::string part = split == Split::kTrain ? "train" : "t10k";
  const std::filesystem::path images_path = Find(folder, part + "-images", "idx3-ubyte");
  const std::filesystem::path labels_path = Find(folder, part + "-labels", "idx1-ubyte");
  IdxFile images = ReadIdxFile(images_path, 3, "images");
  IdxFile labels = ReadIdxFile(labels_path, 1, "labels");
  CheckSides(images_path, images);
  CheckLabels(labels_path, labels.elements);
  if (images.extents[0] != labels.extents[0]) {
    throw std::invalid_argument(fmt::format("'{}' has {} images, but '{}' has {} labels",
                                            images_path.string(), images.extents[0],
                                            labels_path.string(), labels.extents[0]));
  }
  pixels_ = std::move(images.elements);
  labels_ = std::move(labels.elements);
}

Example MnistDataset::Get(int64_t index) const {
  const Batch batch = GetBatch({&index, 1});
  return {batch.inputs.View({1, kSide, kSide}), batch.targets.View({})};
}

Batch MnistDataset::GetBatch(std::span<const int64_t> indices) const {
  CheckIndices(indices);
  const int64_t count = static_cast<int64_t>(indices.size());
  const Batch batch = {Tensor::Empty({count, 1, kSide, kSide}),
                       Tensor::Empty({count}, {.dtype = ops::DType::kInt64})};
  float* input = batch.inputs.data<float>();
  int64_t* target = batch.targets.data<int64_t>();
  for (int64_t index : indices) {
    NormalizePixels({&pixels_[index * kPixels], kPixels}, input);
    input += kPixels;
    *target++ = labels_[index];
  }
  return batch;
}

}  // namespace ddp
