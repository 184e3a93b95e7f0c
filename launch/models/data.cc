#include "launch/models/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/data/cifar10.h"
#include "ddp/data/digits.h"
#include "ddp/data/mnist.h"
#include "ddp/data/synthetic.h"
#include "ddp/data/tokens.h"
#include "ops/tensor/random.h"

namespace launch {
namespace {

constexpr int64_t kDigitsTrain = 20'000;
constexpr int64_t kDigitsTest = 4'000;

Datasets OpenDigits(const DataSource&, Task, const DataOptions&) {
  using ddp::DrawnDigits;
  return {std::make_unique<DrawnDigits>(DrawnDigits::Options{.size = kDigitsTrain}),
          std::make_unique<DrawnDigits>(
              DrawnDigits::Options{.size = kDigitsTest, .split = DrawnDigits::Split::kTest})};
}

// Both splits of a dataset that is a folder of files.
template <class Dataset>
Datasets OpenFolder(const DataSource& source, Task, const DataOptions&) {
  return {std::make_unique<Dataset>(source.path, Dataset::Split::kTrain),
          std::make_unique<Dataset>(source.path, Dataset::Split::kTest)};
}

Datasets Windows(std::vector<ddp::TokenShard> train, std::vector<ddp::TokenShard> test,
                 const DataOptions& options) {
  const ddp::TokenDatasetOptions windows = {.context = options.context, .vocab = options.vocab};
  return {std::make_unique<ddp::TokenDataset>(std::move(train), windows),
          std::make_unique<ddp::TokenDataset>(std::move(test), windows)};
}

// Speaks of the whole file: its parts are nothing that users know of.
void RequireTwoWindows(const ddp::TokenShard& shard, int64_t context) {
  const int64_t needed = 2 * (context + 1);
  if (shard.num_tokens >= needed) return;
  const int64_t longest = shard.num_tokens / 2 - 1;
  throw std::invalid_argument(fmt::format(
      "'{}' has {} tokens, but a window of context {} to train with and one to test with need {}; "
      "{}",
      shard.name, shard.num_tokens, context, needed,
      longest > 0 ? fmt::format("a context of up to {} would do", longest)
                  : "no context would do"));
}

// The last tenth is for testing, but one window at least.
Datasets SplitShard(const ddp::TokenShard& shard, const DataOptions& options) {
  RequireTwoWindows(shard, options.context);
  const int64_t test = std::max(shard.num_tokens / 10, options.context + 1);
  const int64_t train = shard.num_tokens - test;
  return Windows({shard.Part(0, train)}, {shard.Part(train, shard.num_tokens)}, options);
}

Datasets OpenText(const DataSource& source, Task, const DataOptions& options) {
  return SplitShard(ddp::OpenText(source.path), options);
}

Datasets OpenTokens(const DataSource& source, Task, const DataOptions& options) {
  std::vector<ddp::TokenShard> shards = ddp::OpenTokenShards(source.path);
  if (shards.size() == 1) return SplitShard(shards[0], options);
  const ddp::TokenShard last = shards.back();
  shards.pop_back();
  return Windows(std::move(shards), {last}, options);
}

ddp::TensorDataset RandomTokens(int64_t size, const DataOptions& options, uint64_t seed) {
  const ops::Shape shape = {size, options.context};
  const auto draw = [&](uint64_t stream) {
    ops::Generator generator(seed, stream);
    const ops::Tensor tokens = ops::Tensor::Empty(shape, {.dtype = ops::DType::kInt64});
    for (int64_t& token : tokens.elements<int64_t>()) {
      token = static_cast<int64_t>(generator.Below(static_cast<uint64_t>(options.vocab)));
    }
    return tokens;
  };
  return {draw(1), draw(2)};
}

// Pure noise: for measuring how fast, not how well.
std::unique_ptr<ddp::Dataset> Noise(Task task, const DataOptions& options, bool is_train) {
  const uint64_t seed = 2 * options.seed + (is_train ? 0 : 1);
  if (task == Task::kRegression) {
    return std::make_unique<ddp::TensorDataset>(
        ddp::SyntheticRegression(is_train ? 10'000 : 1'000, {5}, {2}, seed));
  }
  if (task == Task::kLanguage) {
    return std::make_unique<ddp::TensorDataset>(RandomTokens(is_train ? 1'024 : 32, options, seed));
  }
  return std::make_unique<ddp::TensorDataset>(
      ddp::SyntheticClassification(is_train ? 2'048 : 512, {1, 28, 28}, 10, seed));
}

Datasets OpenSynthetic(const DataSource&, Task task, const DataOptions& options) {
  return {Noise(task, options, true), Noise(task, options, false)};
}

}  // namespace

Datasets OpenData(const DataSource& source, Task task, const DataOptions& options) {
  using Opener = std::function<Datasets(const DataSource&, Task, const DataOptions&)>;
  static const std::map<std::string, Opener> openers = {
      {"cifar10", OpenFolder<ddp::Cifar10Dataset>},
      {"digits", OpenDigits},
      {"mnist", OpenFolder<ddp::MnistDataset>},
      {"synthetic", OpenSynthetic},
      {"text", OpenText},
      {"tokens", OpenTokens}};
  return openers.at(source.name)(source, task, options);
}

}  // namespace launch
