// Weights from a file, for models of any kind.
#pragma once

#include <string>

#include "ops/nn/module.h"

namespace launch {

// Copies the weights of a safetensors file, as `train --save`, PyTorch or Hugging Face write it,
// into a model, by name: those of ops::nn::Module::StateDict, which are PyTorch's, and for a Gpt
// also Hugging Face's (gpt_weights.h). Numbers are converted to the model's dtypes. Throws what
// ddp::ReadSafetensors throws, and std::invalid_argument, with the path, for names that only one
// side has, and for shapes that differ, with both; then nothing has changed.
void LoadWeights(const std::string& path, ops::nn::Module& model);

}  // namespace launch
