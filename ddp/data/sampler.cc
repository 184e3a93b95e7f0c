#include "ddp/data/sampler.h"

#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "ops/tensor/random.h"

namespace ddp {
namespace {

// Keeps the shuffling of (seed, epoch) apart from what else a program draws from the same seed.
constexpr uint64_t kShuffleStream = uint64_t{0x73687566} << 32;  // "shuf"

std::vector<int64_t> Order(int64_t count, bool shuffle, uint64_t seed, int64_t epoch) {
  if (shuffle) return ops::Generator(seed, kShuffleStream + epoch).Permutation(count);
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

DistributedSampler::DistributedSampler(int64_t dataset_size,
                                       const DistributedSamplerOptions& options)
    : dataset_size_(dataset_size), options_(options) {
  if (options.world_size < 1) {
    throw std::invalid_argument(fmt::format(
        "DistributedSampler: world_size is {}; at least 1 is needed", options.world_size));
  }
  if (options.rank < 0 || options.rank >= options.world_size) {
    throw std::invalid_argument(fmt::format("DistributedSampler: rank {} is outside a world of {}",
                                            options.rank, options.world_size));
  }
  if (dataset_size < 1) {
    throw std::invalid_argument(
        fmt::format("DistributedSampler: the dataset has {} examples", dataset_size));
  }
  if (options.uneven == DistributedSamplerOptions::Uneven::kDrop && num_examples() == 0) {
    throw std::invalid_argument(fmt::format(
        "DistributedSampler: dropping what doesn't divide by {} ranks leaves none of {} examples",
        options.world_size, dataset_size));
  }
}

std::vector<int64_t> DistributedSampler::Indices(int64_t epoch, int64_t consumed) const {
  std::vector<int64_t> mine(num_examples(consumed));
  const std::vector<int64_t> order = Order(dataset_size_, options_.shuffle, options_.seed, epoch);
  int64_t position = consumed + options_.rank;
  for (int64_t& index : mine) {
    index = order[position % dataset_size_];  // beyond the end only to pad
    position += options_.world_size;
  }
  return mine;
}

int64_t DistributedSampler::num_examples(int64_t consumed) const {
  if (consumed < 0 || consumed >= dataset_size_) {
    throw std::invalid_argument(
        fmt::format("DistributedSampler: {} examples of an epoch of {} can't have been consumed",
                    consumed, dataset_size_));
  }
  const int64_t left = dataset_size_ - consumed;
  const int64_t world = options_.world_size;
  switch (options_.uneven) {
    case DistributedSamplerOptions::Uneven::kPad:
      return (left + world - 1) / world;
    case DistributedSamplerOptions::Uneven::kDrop:
      return left / world;
    case DistributedSamplerOptions::Uneven::kExact:
      return (left - options_.rank + world - 1) / world;
  }
  return 0;
}

}  // namespace ddp
