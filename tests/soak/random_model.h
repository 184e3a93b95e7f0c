// The model of a random program.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "ops/nn/module.h"
#include "ops/tensor/tensor.h"
#include "tests/soak/random_program.h"

namespace ddp::soak {

class RandomModel : public ops::nn::Module {
 public:
  // Values depend on `seed` alone.
  RandomModel(const ModelPlan& plan, uint64_t seed);

  // Inputs [rows] (int64, with embeddings) or [rows, width] -> [rows, num_outputs].
  ops::Tensor Forward(const ops::Tensor& x) override;
  // What the following forward passes leave out.
  void set_skipped(Skipped skipped) { skipped_ = skipped; }

 private:
  struct Layer : ops::nn::Module {
    ops::Tensor Apply(const ops::Tensor& x) const;
    void Add(const char* name, ops::Tensor& tensor, ops::Tensor value);

    ops::Tensor weight, bias, scale;
  };

  const ModelPlan plan_;
  Skipped skipped_ = 0;
  ops::Tensor table_;
  std::deque<Layer> blocks_;
  Layer head_;
};

}  // namespace ddp::soak
