// Dataset: examples by index.
//
// A user's own needs two functions; batches are made by stacking unless GetBatch is overridden or
// the loader is given a collate function:
//
//   class Squares : public ddp::Dataset {
//    public:
//     int64_t size() const override { return 1000; }
//     ddp::Example Get(int64_t i) const override {
//       return {Tensor::Scalar(i / 1000.0).View({1}), Tensor::Scalar(i * i / 1e6).View({1})};
//     }
//   };
//
// Get and GetBatch may be called from a loader's prefetch thread, one call at a time per loader.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ddp {

struct Example {
  ops::Tensor input;
  ops::Tensor target;
};

struct Batch {
  ops::Tensor inputs;   // [batch, ...]
  ops::Tensor targets;  // [batch, ...]
  int64_t size() const { return inputs.dim(0); }
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Throws std::out_of_range for an index outside [0, size()).
  virtual Example Get(int64_t index) const = 0;
  // The default gets the examples one by one and stacks them.
  virtual Batch GetBatch(std::span<const int64_t> indices) const;

 protected:
  // Throws what Get promises, with the first index that is outside, and the size.
  void CheckIndices(std::span<const int64_t> indices) const;
};

// Puts examples of equal shape and dtype together along a new first dimension (a scalar target
// becomes [batch]). Throws std::invalid_argument with both shapes where they differ.
Batch Stack(std::span<const Example> examples);

// Inputs and targets as two tensors with the examples along the first dimension.
class TensorDataset : public Dataset {
 public:
  // Throws std::invalid_argument unless both have the same number of rows.
  TensorDataset(ops::Tensor inputs, ops::Tensor targets);
  int64_t size() const override { return inputs_.dim(0); }
  Example Get(int64_t index) const override;
  Batch GetBatch(std::span<const int64_t> indices) const override;

 private:
  ops::Tensor inputs_, targets_;
};

}  // namespace ddp
