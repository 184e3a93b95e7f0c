#include "launch/models/data.h"

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "ddp/data/digits.h"
#include "ddp/data/mnist.h"
#include "ddp/data/synthetic.h"

namespace launch {
namespace {

constexpr int64_t kDigitsTrain = 20'000;
constexpr int64_t kDigitsTest = 4'000;

Datasets OpenDigits(const DataSource&, Task, uint64_t) {
  using ddp::DrawnDigits;
  return {std::make_unique<DrawnDigits>(DrawnDigits::Options{.size = kDigitsTrain}),
          std::make_unique<DrawnDigits>(
              DrawnDigits::Options{.size = kDigitsTest, .split = DrawnDigits::Split::kTest})};
}

Datasets OpenMnist(const DataSource& source, Task, uint64_t) {
  using ddp::MnistDataset;
  return {std::make_unique<MnistDataset>(source.directory, MnistDataset::Split::kTrain),
          std::make_unique<MnistDataset>(source.directory, MnistDataset::Split::kTest)};
}

// Pure noise: for measuring how fast, not how well.
std::unique_ptr<ddp::Dataset> Noise(Task task, uint64_t seed, bool is_train) {
  if (task == Task::kRegression) {
    return std::make_unique<ddp::TensorDataset>(
        ddp::SyntheticRegression(is_train ? 10'000 : 1'000, {5}, {2}, seed));
  }
  return std::make_unique<ddp::TensorDataset>(
      ddp::SyntheticClassification(is_train ? 2'048 : 512, {1, 28, 28}, 10, seed));
}

Datasets OpenSynthetic(const DataSource&, Task task, uint64_t seed) {
  return {Noise(task, 2 * seed, true), Noise(task, 2 * seed + 1, false)};
}

}  // namespace

Datasets OpenData(const DataSource& source, Task task, uint64_t seed) {
  using Opener = std::function<Datasets(const DataSource&, Task, uint64_t)>;
  static const std::map<std::string, Opener> openers = {
      {"digits", OpenDigits}, {"mnist", OpenMnist}, {"synthetic", OpenSynthetic}};
  return openers.at(source.name)(source, task, seed);
}

}  // namespace launch
