// Random examples of any shape, for benchmarks and first tries.
#pragma once

#include <cstdint>

#include "ddp/data/dataset.h"

namespace ddp {

// `size` examples that depend on `seed` alone: inputs [size, input_shape...] and targets
// [size, target_shape...], both standard normal float32.
TensorDataset SyntheticRegression(int64_t size, const ops::Shape& input_shape,
                                  const ops::Shape& target_shape, uint64_t seed = 0);

// The same with targets that are classes, int64[size], uniform from 0 to num_classes - 1. Throws
// std::invalid_argument for num_classes below 1.
TensorDataset SyntheticClassification(int64_t size, const ops::Shape& input_shape,
                                      int64_t num_classes, uint64_t seed = 0);

}  // namespace ddp
