// Layers without parameters. The formulas are in ops/autograd/activations.h and softmax.h.
#pragma once

#include <cstdint>

#include "ops/autograd/activations.h"
#include "ops/nn/module.h"
#include "ops/tensor/random.h"

namespace ops::nn {

class Relu : public Module {
 public:
  Tensor Forward(const Tensor& x) override;
};

class LeakyRelu : public Module {
 public:
  explicit LeakyRelu(double negative_slope = 0.01) : negative_slope_(negative_slope) {}
  Tensor Forward(const Tensor& x) override;

 private:
  double negative_slope_;
};

class Gelu : public Module {
 public:
  explicit Gelu(Approximate approximate = Approximate::kNone) : approximate_(approximate) {}
  Tensor Forward(const Tensor& x) override;

 private:
  Approximate approximate_;
};

class Silu : public Module {
 public:
  Tensor Forward(const Tensor& x) override;
};

class Sigmoid : public Module {
 public:
  Tensor Forward(const Tensor& x) override;
};

class Tanh : public Module {
 public:
  Tensor Forward(const Tensor& x) override;
};

class Softmax : public Module {
 public:
  explicit Softmax(int dim = -1) : dim_(dim) {}
  Tensor Forward(const Tensor& x) override;

 private:
  int dim_;
};

class LogSoftmax : public Module {
 public:
  explicit LogSoftmax(int dim = -1) : dim_(dim) {}
  Tensor Forward(const Tensor& x) override;

 private:
  int dim_;
};

// [batch, a, b, ...] -> [batch, a b ...].
class Flatten : public Module {
 public:
  Tensor Forward(const Tensor& x) override;
};

// Where this rank's part of a batch stands, for dropout: which step, and which example of the whole
// batch is its first. While one lives, dropout layers on this thread draw the mask of that step and
// of those examples: the same for any number of ranks, and again in a recomputation or after a
// restart. Without one, a layer counts its own calls and starts at example 0; in a Checkpoint the
// second run, in Backward, has the position or count of the first.
class ScopedBatchPosition {
 public:
  ScopedBatchPosition(uint64_t step, int64_t first_example);
  ~ScopedBatchPosition();
  ScopedBatchPosition(const ScopedBatchPosition&) = delete;
  ScopedBatchPosition& operator=(const ScopedBatchPosition&) = delete;

  // The innermost of this thread; null where none lives.
  static const ScopedBatchPosition* Current();

  uint64_t step() const { return step_; }
  int64_t first_example() const { return first_example_; }

 private:
  uint64_t step_;
  int64_t first_example_;
  const ScopedBatchPosition* previous_;
};

// In training: Dropout with a seed drawn from the generator when the layer is made, so that the
// same layer draws the same masks on all ranks. The first dimension of x counts examples. In
// evaluation: x.
class Dropout : public Module {
 public:
  // Throws std::invalid_argument for a probability outside [0, 1].
  explicit Dropout(double probability = 0.5, Generator* generator = nullptr);
  Tensor Forward(const Tensor& x) override;

 private:
  double probability_;
  uint64_t seed_;
  uint64_t calls_ = 0;
};

}  // namespace ops::nn
