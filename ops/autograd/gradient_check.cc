#include "ops/autograd/gradient_check.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "ops/autograd/grad.h"

namespace ops {
namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// sum_i weights[i] output[i].
double WeightedOutput(const Function& function, const std::vector<Tensor>& inputs,
                      const Tensor& weights) {
  const NoGradGuard guard;
  const auto output = function(inputs).ToVector<double>();
  const auto weight = weights.ToVector<double>();
  return std::inner_product(output.begin(), output.end(), weight.begin(), 0.0);
}

testing::AssertionResult GradientMatches(const Function& function,
                                         const std::vector<Tensor>& inputs, size_t which,
                                         const Tensor& weights,
                                         const GradientCheckOptions& options) {
  const Tensor gradient = Grad(inputs[which]);
  if (!gradient.defined()) {
    return testing::AssertionFailure() << "input " << which << " has no gradient";
  }
  for (int64_t i = 0; i < gradient.num_elements(); ++i) {
    double& element = inputs[which].data<double>()[i];
    const double value = element;
    element = value + options.step;
    const double above = WeightedOutput(function, inputs, weights);
    element = value - options.step;
    const double below = WeightedOutput(function, inputs, weights);
    element = value;
    const double slope = (above - below) / (2 * options.step) * (options.accumulate ? 2 : 1);
    const double got = gradient.data<double>()[i];
    if (!(std::abs(got - slope) <= options.tolerance * (1 + std::abs(slope)))) {
      return testing::AssertionFailure()
             << fmt::format("element {} of input {} ({}): Backward says {}, differences {}", i,
                            which, inputs[which].Describe(), got, slope);
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace

Tensor RandomLeaf(const Shape& shape, Generator& generator) {
  return SetRequiresGrad(Tensor::Randn(shape, generator, {.dtype = DType::kFloat64}));
}

testing::AssertionResult GradientsMatch(const Function& function, const std::vector<Tensor>& inputs,
                                        const GradientCheckOptions& options) {
  for (const Tensor& input : inputs) ClearGrad(input);
  const Tensor output = function(inputs);
  Generator generator(20);
  const Tensor weights = Tensor::Randn(output.shape(), generator, output.options());
  Backward(output, weights);
  if (options.accumulate) Backward(function(inputs), weights);

  for (size_t which = 0; which < inputs.size(); ++which) {
    if (!RequiresGrad(inputs[which])) {
      if (!Grad(inputs[which]).defined()) continue;
      return testing::AssertionFailure() << "input " << which << " requires no gradient, has one";
    }
    const auto result = GradientMatches(function, inputs, which, weights, options);
    if (!result) return result;
  }
  for (const Tensor& input : inputs) ClearGrad(input);
  return testing::AssertionSuccess();
}

}  // namespace ops
