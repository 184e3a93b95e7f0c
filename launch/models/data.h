// The trainer's data, opened by name.
#pragma once

#include <cstdint>
#include <memory>

#include "ddp/data/dataset.h"
#include "launch/models/catalog.h"

namespace launch {

struct Datasets {
  std::unique_ptr<ddp::Dataset> train, test;
};

// Synthetic data depends on the seed; other data is what it is. Language data comes in windows of
// options.context tokens; the last shard of several, or the last tenth of a text or of one shard,
// is for testing. Throws what the datasets throw: files that are missing or damaged, by name.
struct DataOptions {
  uint64_t seed = 0;
  int64_t context = 128;
  int64_t vocab = 512;
};
Datasets OpenData(const DataSource& source, Task task, const DataOptions& options);

}  // namespace launch
