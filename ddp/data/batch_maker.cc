#include "ddp/data/batch_maker.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace ddp {
namespace {

int64_t CountBatches(int64_t examples, int64_t batch_size, bool drop_last) {
  return drop_last ? examples / batch_size : (examples + batch_size - 1) / batch_size;
}

void RequireBatches(int64_t examples, int64_t batch_size, bool drop_last) {
  if (batch_size < 1) {
    throw std::invalid_argument(
        fmt::format("DataLoader: batch_size is {}; at least 1 is needed", batch_size));
  }
  if (drop_last && examples < batch_size) {
    throw std::invalid_argument(fmt::format(
        "DataLoader: batch_size is {}, but this rank has only {} examples, and drop_last leaves "
        "out smaller batches: there would be none",
        batch_size, examples));
  }
}

}  // namespace

BatchMaker::BatchMaker(const Dataset& dataset, const DistributedSampler& sampler,
                       int64_t batch_size, bool drop_last, Collate collate, const Begun& begun)
    : dataset_(dataset),
      sampler_(sampler),
      batch_size_(batch_size),
      begun_(begun),
      collate_(std::move(collate)) {
  RequireBatches(sampler.num_examples(), batch_size, drop_last);
  num_batches_ = CountBatches(sampler.num_examples(), batch_size, drop_last);
  num_left_batches_ = CountBatches(sampler.num_examples(begun.consumed), batch_size, drop_last);
  if (sampler.dataset_size() != dataset.size()) {
    throw std::invalid_argument(
        fmt::format("DataLoader: the sampler is for {} examples, the dataset has {}",
                    sampler.dataset_size(), dataset.size()));
  }
}

Batch BatchMaker::Make(int64_t epoch, int64_t index) {
  if (epoch != epoch_) {
    order_ = sampler_.Indices(epoch, epoch == begun_.epoch ? begun_.consumed : 0);
    epoch_ = epoch;
  }
  const int64_t begin = index * batch_size_;
  const int64_t count = std::min(batch_size_, static_cast<int64_t>(order_.size()) - begin);
  const std::span<const int64_t> indices(order_.data() + begin, count);
  if (!collate_) return dataset_.GetBatch(indices);

  std::vector<Example> examples;
  examples.reserve(indices.size());
  for (int64_t i : indices) examples.push_back(dataset_.Get(i));
  return collate_(examples);
}

}  // namespace ddp
