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

// Synthetic data depends on the seed; digits and MNIST are what they are. Throws what the datasets
// throw: files that are missing or damaged, by name.
Datasets OpenData(const DataSource& source, Task task, uint64_t seed);

}  // namespace launch
