#include "ops/nn/activations.h"

namespace ops::nn {

Tensor Relu::Forward(const Tensor& x) { return ops::Relu(x); }

}  // namespace ops::nn
