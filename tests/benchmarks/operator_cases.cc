#include "tests/benchmarks/operator_cases.h"

#include <fmt/format.h>

#include <memory>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/optim/adam.h"
#include "ops/optim/sgd.h"
#include "ops/tensor/random.h"

namespace benchmarks {
namespace {

using ops::Shape;
using ops::Tensor;

constexpr double kFloatBytes = 4;
constexpr double kExponential = 10;  // operations that stand for one

Tensor Random(const Shape& shape) {
  static ops::Generator generator(0);
  return Tensor::Randn(shape, generator);
}

Tensor Leaf(const Shape& shape) { return ops::SetRequiresGrad(Random(shape)); }

Tensor Classes(const Shape& shape, int64_t count) {
  std::vector<int64_t> values(shape.num_elements());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int64_t>(i * 7919) % count;
  return Tensor::FromVector(values, shape);
}

double Elements(const Shape& shape) { return static_cast<double>(shape.num_elements()); }

OperatorCase LinearCase(int64_t rows, int64_t in, int64_t out) {
  const double product = 2.0 * rows * in * out;
  const double num_bytes = kFloatBytes * (rows * in + in * out + rows * out);
  return {fmt::format("linear {}x{}x{}", rows, in, out),
          [=] {
            const Tensor x = Leaf({rows, in}), weight = Leaf({out, in}), bias = Leaf({out});
            return [=] { return ops::Linear(x, weight, bias); };
          },
          {product, num_bytes},
          {2 * product, 2 * num_bytes}};
}

OperatorCase ConvolutionCase(int64_t in, int64_t extent, int64_t out) {
  constexpr double kImages = 64, kTaps = 9;
  const double product = 2 * kImages * extent * extent * kTaps * in * out;
  const double num_bytes = kFloatBytes * kImages * extent * extent * (in + out);
  return {fmt::format("conv2d 64x{}x{}x{} 3x3 -> {}", in, extent, extent, out),
          [=] {
            const Tensor x = Leaf({64, in, extent, extent}), weight = Leaf({out, in, 3, 3});
            const Tensor bias = Leaf({out});
            return [=] { return ops::Conv2d(x, weight, bias, {.padding = 1}); };
          },
          {product, num_bytes},
          {2 * product, 2 * num_bytes}};
}

// One input of the given shape; an output of the same number of elements, or `outputs`.
OperatorCase UnaryCase(const std::string& name, const Shape& shape, double operations,
                       std::function<Tensor(const Tensor&)> function, double outputs = 0) {
  const double elements = Elements(shape);
  const double num_bytes = kFloatBytes * (elements + (outputs > 0 ? outputs : elements));
  return {name,
          [=] {
            const Tensor x = Leaf(shape);
            return [=] { return function(x); };
          },
          {operations * elements, num_bytes},
          {operations * elements, num_bytes + kFloatBytes * elements}};
}

OperatorCase BatchNormCase() {
  const double elements = 64 * 32 * 14 * 14;
  return {"batchnorm2d 64x32x14x14",
          [] {
            const Tensor x = Leaf({64, 32, 14, 14}), weight = Leaf({32}), bias = Leaf({32});
            const Tensor mean = Tensor::Zeros({32}), variance = Tensor::Full({32}, 1);
            return [=] { return ops::BatchNorm(x, weight, bias, mean, variance); };
          },
          {8 * elements, 2 * kFloatBytes * elements},
          {8 * elements, 3 * kFloatBytes * elements}};
}

OperatorCase LayerNormCase() {
  const double elements = 512 * 256;
  return {"layernorm 512x256",
          [] {
            const Tensor x = Leaf({512, 256}), weight = Leaf({256}), bias = Leaf({256});
            return [=] { return ops::LayerNorm(x, 1, weight, bias); };
          },
          {8 * elements, 2 * kFloatBytes * elements},
          {8 * elements, 3 * kFloatBytes * elements}};
}

OperatorCase CrossEntropyCase(int64_t rows, int64_t classes) {
  const double elements = static_cast<double>(rows * classes);
  return {fmt::format("cross_entropy {}x{}", rows, classes),
          [=] {
            const Tensor logits = Leaf({rows, classes}), targets = Classes({rows}, classes);
            return [=] { return ops::CrossEntropyLoss(logits, targets); };
          },
          {kExponential * elements, kFloatBytes * elements},
          {kExponential * elements, 2 * kFloatBytes * elements}};
}

OperatorCase EmbeddingCase() {
  const double gathered = 512 * 256;
  return {"embedding 512 ids, 512x256",
          [] {
            const Tensor table = Leaf({512, 256}), ids = Classes({4, 128}, 512);
            return [=] { return ops::Embedding(ids, table); };
          },
          {0, 2 * kFloatBytes * gathered},
          {gathered, 3 * kFloatBytes * gathered}};
}

// Half of the scores are masked and needn't be calculated.
OperatorCase AttentionCase() {
  constexpr double kHeads = 4 * 4, kTime = 128, kWidth = 64;
  const double scores = kHeads * kTime * kTime / 2;
  const double num_bytes = kFloatBytes * kHeads * kTime * kWidth * 4;
  return {"attention B4 H4 T128 D64",
          [] {
            const Tensor qkv = Leaf({4, 128, 3 * 256});
            return [=] { return ops::Attention(qkv, {.num_heads = 4}); };
          },
          {scores * (4 * kWidth + kExponential), num_bytes},
          {scores * (10 * kWidth + kExponential), 2 * num_bytes}};
}

std::vector<ops::NamedTensor> Parameters(int count, int64_t elements) {
  std::vector<ops::NamedTensor> parameters;
  for (int i = 0; i < count; ++i) {
    const Tensor parameter = Leaf({elements});
    ops::SetGrad(parameter, Random({elements}));
    parameters.push_back({fmt::format("p{}", i), parameter});
  }
  return parameters;
}

// `passes` over memory: each parameter, gradient or state that is read or written.
template <class Optimizer, class Options>
StepCase OptimizerCase(const std::string& name, int count, int64_t elements, double passes,
                       const Options& options) {
  const double total = static_cast<double>(count * elements);
  return {name,
          [=] {
            const auto optimizer =
                std::make_shared<Optimizer>(Parameters(count, elements), options);
            return [=] { optimizer->Step(); };
          },
          {passes * total, passes * kFloatBytes * total}};
}

}  // namespace

const std::vector<OperatorCase>& OperatorCases() {
  static const std::vector<OperatorCase> cases = {
      LinearCase(64, 1024, 1024),
      LinearCase(64, 784, 1024),
      LinearCase(512, 256, 1024),
      LinearCase(10, 5, 2),
      ConvolutionCase(16, 28, 32),
      ConvolutionCase(16, 14, 32),
      ConvolutionCase(1, 28, 16),
      UnaryCase(
          "maxpool2 64x16x28x28", {64, 16, 28, 28}, 1,
          [](const Tensor& x) { return ops::MaxPool2d(x, 2); }, 64 * 16 * 14 * 14),
      BatchNormCase(),
      LayerNormCase(),
      UnaryCase("softmax 16x128x128", {16, 128, 128}, kExponential,
                [](const Tensor& x) { return ops::Softmax(x); }),
      UnaryCase("gelu tanh 512x1024", {512, 1024}, kExponential,
                [](const Tensor& x) { return ops::Gelu(x, ops::Approximate::kTanh); }),
      UnaryCase("gelu erf 512x1024", {512, 1024}, kExponential,
                [](const Tensor& x) { return ops::Gelu(x); }),
      UnaryCase("relu 64x1024", {64, 1024}, 1, [](const Tensor& x) { return ops::Relu(x); }),
      CrossEntropyCase(64, 10),
      CrossEntropyCase(512, 512),
      UnaryCase(
          "mse 10x2", {10, 2}, 3,
          [target = Random({10, 2})](const Tensor& x) { return ops::MseLoss(x, target); }, 1),
      EmbeddingCase(),
      AttentionCase(),
  };
  return cases;
}

const std::vector<StepCase>& StepCases() {
  using ops::optim::AdamOptions;
  using ops::optim::SgdOptions;
  constexpr int64_t kAll = 10'000'000, kPart = 250'000;
  static const std::vector<StepCase> cases = {
      OptimizerCase<ops::optim::Sgd>("sgd step 10M, 1 tensor", 1, kAll, 3, SgdOptions{}),
      OptimizerCase<ops::optim::Sgd>("sgd momentum step 10M, 1 tensor", 1, kAll, 5,
                                     SgdOptions{.momentum = 0.9}),
      OptimizerCase<ops::optim::Adam>("adam step 10M, 1 tensor", 1, kAll, 7, AdamOptions{}),
      OptimizerCase<ops::optim::AdamW>("adamw step 10M, 1 tensor", 1, kAll, 7,
                                       AdamOptions{.weight_decay = 0.01}),
      OptimizerCase<ops::optim::AdamW>("adamw step 10M, 40 tensors", 40, kPart, 7,
                                       AdamOptions{.weight_decay = 0.01}),
  };
  return cases;
}

}  // namespace benchmarks
