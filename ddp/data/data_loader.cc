#include "ddp/data/data_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "ddp/data/prefetcher.h"

namespace ddp {

struct DataLoader::Impl {
  Impl(const Dataset& dataset, const DistributedSampler& sampler, const DataLoaderOptions& options);

  void StartEpoch();
  Batch Take(int64_t index);

  BatchMaker maker;  // the prefetcher, where there is one, has a copy
  std::optional<Prefetcher> prefetcher;

  const int64_t first_epoch;
  int64_t next_epoch;
  bool in_epoch = false;   // of next_epoch - 1
  int64_t next_index = 0;  // of the batch in the epoch
  double making_seconds = 0;
};

DataLoader::Impl::Impl(const Dataset& dataset, const DistributedSampler& sampler,
                       const DataLoaderOptions& options)
    : maker(dataset, sampler, options.batch_size, options.drop_last, options.collate,
            {options.first_epoch, options.first_epoch_consumed}),
      first_epoch(options.first_epoch),
      next_epoch(options.first_epoch) {
  if (options.first_epoch < 0 || options.prefetch_batches < 0) {
    throw std::invalid_argument(
        fmt::format("DataLoader: first_epoch ({}) and prefetch_batches ({}) can't be negative",
                    options.first_epoch, options.prefetch_batches));
  }
  if (options.prefetch_batches > 0 && maker.num_batches(options.first_epoch + 1) > 0) {
    prefetcher.emplace(maker, options.first_epoch, options.prefetch_batches);
  }
}

void DataLoader::Impl::StartEpoch() {
  ++next_epoch;
  next_index = 0;
  in_epoch = true;
}

Batch DataLoader::Impl::Take(int64_t index) {
  const int64_t epoch = next_epoch - 1;
  if (prefetcher) {
    if (std::optional<Batch> batch = prefetcher->Take(epoch)) return *std::move(batch);
    --next_index;  // it comes next
    throw DataStalledError(fmt::format("batch {} of epoch {} did not come within {}", index, epoch,
                                       FormatSeconds(prefetcher->wait_limit())));
  }
  const auto start = std::chrono::steady_clock::now();
  Batch batch = maker.Make(epoch, index);
  making_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return batch;
}

DataLoader::DataLoader(const Dataset& dataset, const DistributedSampler& sampler,
                       const DataLoaderOptions& options)
    : impl_(std::make_unique<Impl>(dataset, sampler, options)) {}

DataLoader::~DataLoader() = default;

int64_t DataLoader::num_batches() const { return num_batches(impl_->first_epoch + 1); }

int64_t DataLoader::num_batches(int64_t epoch) const { return impl_->maker.num_batches(epoch); }

int64_t DataLoader::epoch() const { return std::max(impl_->first_epoch, impl_->next_epoch - 1); }

std::optional<Batch> DataLoader::Next() {
  if (!impl_->in_epoch) impl_->StartEpoch();
  if (impl_->next_index >= num_batches(impl_->next_epoch - 1)) {
    impl_->in_epoch = false;
    return std::nullopt;
  }
  return impl_->Take(impl_->next_index++);
}

void DataLoader::LimitWaits(Duration limit) {
  if (impl_->prefetcher) impl_->prefetcher->LimitWaits(limit);
}

double DataLoader::wait_seconds() const {
  return impl_->prefetcher ? impl_->prefetcher->wait_seconds() : impl_->making_seconds;
}

DataLoader::Iterator DataLoader::begin() {
  impl_->in_epoch = false;
  return Iterator(this);
}

DataLoader::Iterator DataLoader::end() { return Iterator(nullptr); }

DataLoader::Iterator::Iterator(DataLoader* loader) : loader_(loader) {
  if (loader != nullptr) batch_ = loader->Next();
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_ = loader_->Next();
  return *this;
}

}  // namespace ddp
