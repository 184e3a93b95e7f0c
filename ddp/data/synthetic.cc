#include "ddp/data/synthetic.h"

#include <fmt/format.h>

#include <stdexcept>

#include "ops/tensor/random.h"

namespace ddp {

using ops::Generator;
using ops::Tensor;

namespace {

constexpr uint64_t kInputStream = uint64_t{0x73796e74} << 32;  // "synt"
constexpr uint64_t kTargetStream = kInputStream + 1;

Tensor Normal(int64_t size, const ops::Shape& shape, uint64_t seed, uint64_t stream) {
  Generator generator(seed, stream);
  return Tensor::Randn(shape.Prepend(size), generator);
}

}  // namespace

TensorDataset SyntheticRegression(int64_t size, const ops::Shape& input_shape,
                                  const ops::Shape& target_shape, uint64_t seed) {
  return {Normal(size, input_shape, seed, kInputStream),
          Normal(size, target_shape, seed, kTargetStream)};
}

TensorDataset SyntheticClassification(int64_t size, const ops::Shape& input_shape,
                                      int64_t num_classes, uint64_t seed) {
  if (num_classes < 1) {
    throw std::invalid_argument(fmt::format(
        "SyntheticClassification: num_classes is {}; at least 1 is needed", num_classes));
  }
  const Tensor classes = Tensor::Empty({size}, {.dtype = ops::DType::kInt64});
  Generator generator(seed, kTargetStream);
  for (int64_t& target : classes.elements<int64_t>()) {
    target = static_cast<int64_t>(generator.Below(num_classes));
  }
  return {Normal(size, input_shape, seed, kInputStream), classes};
}

}  // namespace ddp
