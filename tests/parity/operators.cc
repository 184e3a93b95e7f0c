#include "tests/parity/operators.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/optim/clip.h"

namespace parity {
namespace {

using nlohmann::json;
using ops::Tensor;
using Inputs = Operator::Inputs;
using Outputs = std::vector<Tensor>;

// ---------------------------------------------------------------- attributes
ops::Extent2 ExtentOf(const json& a, const char* name, int64_t otherwise) {
  if (!a.contains(name)) return otherwise;
  return {a.at(name).at(0), a.at(name).at(1)};
}

ops::Reduction ReductionOf(const json& a) {
  const std::string name = a.value("reduction", "mean");
  if (name == "sum") return ops::Reduction::kSum;
  return name == "none" ? ops::Reduction::kNone : ops::Reduction::kMean;
}

ops::DType DTypeNamed(const std::string& name) {
  for (const ops::DType dtype : ops::kAllDTypes) {
    if (ops::Name(dtype) == name) return dtype;
  }
  throw std::out_of_range("no dtype " + name);
}

// ---------------------------------------------------------------- functions of one form
template <Tensor (*kFunction)(const Tensor&)>
Outputs Unary(const Inputs& x, const json&) {
  return {kFunction(x[0])};
}

template <Tensor (*kFunction)(const Tensor&, const Tensor&)>
Outputs Binary(const Inputs& x, const json&) {
  return {kFunction(x[0], x[1])};
}

template <Tensor (*kFunction)(const Tensor&, int)>
Outputs AlongDim(const Inputs& x, const json& a) {
  return {kFunction(x[0], a.at("dim"))};
}

template <Tensor (*kFunction)(const Tensor&, const Tensor&, ops::Reduction)>
Outputs Loss(const Inputs& x, const json& a) {
  return {kFunction(x[0], x[1], ReductionOf(a))};
}

// Sum or Mean, whose signatures want the attribute's dimensions as a list.
template <Tensor (*kOfAll)(const Tensor&),
          Tensor (*kOverDims)(const Tensor&, std::initializer_list<int>, bool)>
Outputs OverDims(const Inputs& x, const json& a) {
  if (!a.contains("dims")) return {kOfAll(x[0])};
  const std::vector<int> d = a.at("dims");
  const bool keep = a.at("keep_dims");
  switch (d.size()) {
    case 1:
      return {kOverDims(x[0], {d[0]}, keep)};
    case 2:
      return {kOverDims(x[0], {d[0], d[1]}, keep)};
    default:
      return {kOverDims(x[0], {d.at(0), d.at(1), d.at(2)}, keep)};
  }
}

template <Tensor (*kFunction)(const Tensor&, ops::Extent2)>
Outputs AdaptivePool2d(const Inputs& x, const json& a) {
  return {kFunction(x[0], ExtentOf(a, "output", 0))};
}

template <Tensor (*kFunction)(const Tensor&, int64_t)>
Outputs AdaptivePool1d(const Inputs& x, const json& a) {
  return {kFunction(x[0], a.at("output"))};
}

// ---------------------------------------------------------------- the rest
Outputs CrossEntropyLoss(const Inputs& x, const json& a) {
  return {ops::CrossEntropyLoss(x[0], x[1],
                                {.ignore_index = a.value("ignore_index", -100),
                                 .label_smoothing = a.value("label_smoothing", 0.0),
                                 .reduction = ReductionOf(a)})};
}

Outputs BatchNorm(const Inputs& x, const json& a) {
  const Tensor y = ops::BatchNorm(x[0], x[1], x[2], x[3], x[4],
                                  {.training = a.at("training"),
                                   .momentum = a.at("momentum"),
                                   .epsilon = a.at("epsilon"),
                                   .relu = a.value("relu", false)});
  return x[3].defined() ? Outputs{y, x[3], x[4]} : Outputs{y};
}

Outputs Conv2d(const Inputs& x, const json& a) {
  return {ops::Conv2d(x[0], x[1], x[2],
                      {.stride = ExtentOf(a, "stride", 1),
                       .padding = ExtentOf(a, "padding", 0),
                       .dilation = ExtentOf(a, "dilation", 1),
                       .groups = a.value("groups", 1)})};
}

Outputs ConvTranspose2d(const Inputs& x, const json& a) {
  return {ops::ConvTranspose2d(x[0], x[1], x[2],
                               {.stride = ExtentOf(a, "stride", 1),
                                .padding = ExtentOf(a, "padding", 0),
                                .output_padding = ExtentOf(a, "output_padding", 0),
                                .dilation = ExtentOf(a, "dilation", 1),
                                .groups = a.value("groups", 1)})};
}

Outputs Conv1d(const Inputs& x, const json& a) {
  return {ops::Conv1d(x[0], x[1], x[2],
                      {.stride = a.value("stride", 1),
                       .padding = a.value("padding", 0),
                       .dilation = a.value("dilation", 1),
                       .groups = a.value("groups", 1)})};
}

Outputs ConvTranspose1d(const Inputs& x, const json& a) {
  return {ops::ConvTranspose1d(x[0], x[1], x[2],
                               {.stride = a.value("stride", 1),
                                .padding = a.value("padding", 0),
                                .output_padding = a.value("output_padding", 0),
                                .dilation = a.value("dilation", 1),
                                .groups = a.value("groups", 1)})};
}

ops::Pool2dOptions Pool2dOptionsOf(const json& a) {
  ops::Pool2dOptions options{.padding = ExtentOf(a, "padding", 0),
                             .ceil_mode = a.value("ceil_mode", false)};
  if (a.contains("stride")) options.stride = ExtentOf(a, "stride", 1);
  return options;
}

ops::Pool1dOptions Pool1dOptionsOf(const json& a) {
  ops::Pool1dOptions options{.padding = a.value("padding", 0),
                             .ceil_mode = a.value("ceil_mode", false)};
  if (a.contains("stride")) options.stride = a.at("stride").get<int64_t>();
  return options;
}

// The inputs of functions that take a list.
Inputs Defined(Inputs x) {
  std::erase_if(x, [](const Tensor& tensor) { return !tensor.defined(); });
  return x;
}

Outputs Concatenate(const Inputs& x, const json& a) {
  return {ops::Concatenate(Defined(x), a.at("dim"))};
}

Outputs Split(const Inputs& x, const json& a) {
  const int dim = a.at("dim");
  if (a.contains("extent")) return ops::Split(x[0], a.at("extent").get<int64_t>(), dim);
  return ops::Split(x[0], a.at("extents").get<std::vector<int64_t>>(), dim);
}

Outputs Pad(const Inputs& x, const json& a) {
  std::vector<ops::Padding> padding;
  for (const json& p : a.at("padding")) padding.push_back({.before = p.at(0), .after = p.at(1)});
  return {ops::Pad(x[0], padding, a.at("value"))};
}

Outputs Max(const Inputs& x, const json& a) {
  if (!a.contains("dim")) return {ops::Max(x[0])};
  const auto [values, indices] = ops::Max(x[0], a.at("dim"), a.value("keep_dim", false));
  return {values, indices};
}

// The inputs are gradients; the outputs what becomes of them, and their norm.
Outputs ClipGradNorm(const Inputs& x, const json& a) {
  std::vector<ops::NamedTensor> parameters;
  for (const Tensor& gradient : Defined(x)) {
    const Tensor parameter = Tensor::Zeros(gradient.shape(), gradient.options());
    ops::SetGrad(ops::SetRequiresGrad(parameter), gradient.Detach());
    parameters.push_back({"", parameter});
  }
  const double norm = ops::optim::ClipGradNorm(parameters, a.at("max_norm"));
  Outputs outputs;
  for (const ops::NamedTensor& parameter : parameters) {
    outputs.push_back(ops::Grad(parameter.tensor));
  }
  outputs.push_back(Tensor::Scalar(norm, x[0].options()));
  return outputs;
}

// ---------------------------------------------------------------- the table
// PyTorch's own results are a few spacings from the true ones where a function takes several
// roundings (exponentials, quotients); sums add their elements in another order.
constexpr Tolerance kEqual{};
constexpr Tolerance kRounded{2, Tolerance::Scale::kElement};
// Exponentials, which are 0 where they would be subnormal (kernel_math.h).
constexpr Tolerance kExponential{2, Tolerance::Scale::kElement, true};
constexpr Tolerance kCancelling{4, Tolerance::Scale::kUnit};
// PyTorch's slope of Gelu's approximation is off by up to 10 in float64: a polynomial of x times
// 1 - tanh^2, which cancels.
constexpr Tolerance kCancellingMore{16, Tolerance::Scale::kUnit};
constexpr Tolerance kSummed{4, Tolerance::Scale::kLargest};
// Attention: sums of exponentials of sums.
constexpr Tolerance kSummedTwice{8, Tolerance::Scale::kLargest};

using Table = std::map<std::string, Operator>;

void AddElementwise(Table& table) {
  table["relu"] = {Unary<ops::Relu>, kEqual, kEqual};
  table["leaky_relu"] = {[](const Inputs& x, const json& a) -> Outputs {
                           return {ops::LeakyRelu(x[0], a.at("negative_slope"))};
                         },
                         kRounded, kRounded};
  table["gelu"] = {[](const Inputs& x, const json&) -> Outputs { return {ops::Gelu(x[0])}; },
                   kCancelling, kCancelling};
  table["gelu_tanh"] = {[](const Inputs& x, const json&) -> Outputs {
                          return {ops::Gelu(x[0], ops::Approximate::kTanh)};
                        },
                        kCancelling, kCancellingMore};
  table["sigmoid"] = {Unary<ops::Sigmoid>, kRounded, kCancelling};
  table["tanh"] = {Unary<ops::Tanh>, kRounded, kCancelling};
  table["silu"] = {Unary<ops::Silu>, kRounded, kCancelling};
  table["swiglu"] = {Binary<ops::SwiGlu>, kRounded, kCancelling};
  table["add"] = {Binary<ops::Add>, kRounded, kSummed};
  table["subtract"] = {Binary<ops::Subtract>, kRounded, kSummed};
  table["multiply"] = {Binary<ops::Multiply>, kRounded, kSummed};
  table["divide"] = {Binary<ops::Divide>, kRounded, kSummed};
  table["equal"] = {Binary<ops::Equal>, kEqual, kEqual};
  table["not_equal"] = {Binary<ops::NotEqual>, kEqual, kEqual};
  table["less"] = {Binary<ops::Less>, kEqual, kEqual};
  table["less_equal"] = {Binary<ops::LessEqual>, kEqual, kEqual};
  table["greater"] = {Binary<ops::Greater>, kEqual, kEqual};
  table["greater_equal"] = {Binary<ops::GreaterEqual>, kEqual, kEqual};
  table["where"] = {
      [](const Inputs& x, const json&) -> Outputs { return {ops::Where(x[0], x[1], x[2])}; },
      kEqual, kSummed};
  table["cast"] = {[](const Inputs& x, const json& a) -> Outputs {
                     return {ops::Cast(x[0], DTypeNamed(a.at("to")))};
                   },
                   kEqual, kEqual};
}

void AddRowwise(Table& table) {
  table["softmax"] = {AlongDim<ops::Softmax>, kExponential, kSummed};
  table["log_softmax"] = {AlongDim<ops::LogSoftmax>, kCancelling, kSummed};
  table["layer_norm"] = {
      [](const Inputs& x, const json& a) -> Outputs {
        return {ops::LayerNorm(x[0], a.at("num_dims"), x[1], x[2], a.at("epsilon"))};
      },
      kSummed, kSummed};
  table["rms_norm"] = {[](const Inputs& x, const json& a) -> Outputs {
                         return {ops::RmsNorm(x[0], x[1], a.at("epsilon"))};
                       },
                       kSummed, kSummed};
  table["group_norm"] = {
      [](const Inputs& x, const json& a) -> Outputs {
        return {ops::GroupNorm(x[0], a.at("groups"), x[1], x[2], a.at("epsilon"))};
      },
      kSummed, kSummed};
  table["batch_norm"] = {BatchNorm, kSummed, kSummed};
  table["embedding"] = {[](const Inputs& x, const json& a) -> Outputs {
                          return {ops::Embedding(x[0], x[1], a.at("padding_id"))};
                        },
                        kEqual, kSummed};
}

void AddProducts(Table& table) {
  table["matmul"] = {
      [](const Inputs& x, const json& a) -> Outputs {
        return {ops::MatMul(
            x[0], x[1], {.transpose_a = a.at("transpose_a"), .transpose_b = a.at("transpose_b")})};
      },
      kSummed, kSummed};
  table["linear"] = {
      [](const Inputs& x, const json&) -> Outputs { return {ops::Linear(x[0], x[1], x[2])}; },
      kSummed, kSummed};
  table["conv2d"] = {Conv2d, kSummed, kSummed};
  table["conv_transpose2d"] = {ConvTranspose2d, kSummed, kSummed};
  table["conv1d"] = {Conv1d, kSummed, kSummed};
  table["conv_transpose1d"] = {ConvTranspose1d, kSummed, kSummed};
  table["attention"] = {[](const Inputs& x, const json& a) -> Outputs {
                          return {ops::Attention(x[0], {.num_heads = a.at("num_heads"),
                                                        .causal = a.at("causal"),
                                                        .scale = a.value("scale", 0.0)})};
                        },
                        kSummedTwice, kSummedTwice};
  table["rotary_embedding"] = {
      [](const Inputs& x, const json& a) -> Outputs {
        return {ops::RotaryEmbedding(x[0], {.num_heads = a.at("num_heads"),
                                            .base = a.value("base", 10000.0),
                                            .first_position = a.value("first_position", 0)})};
      },
      kCancelling, kCancelling};
}

void AddPooling(Table& table) {
  table["max_pool2d"] = {
      [](const Inputs& x, const json& a) -> Outputs {
        return {ops::MaxPool2d(x[0], ExtentOf(a, "kernel", 0), Pool2dOptionsOf(a))};
      },
      kEqual, kSummed};
  table["avg_pool2d"] = {
      [](const Inputs& x, const json& a) -> Outputs {
        return {ops::AvgPool2d(x[0], ExtentOf(a, "kernel", 0), Pool2dOptionsOf(a),
                               a.value("count_padding", true))};
      },
      kSummed, kSummed};
  table["max_pool1d"] = {[](const Inputs& x, const json& a) -> Outputs {
                           return {ops::MaxPool1d(x[0], a.at("kernel"), Pool1dOptionsOf(a))};
                         },
                         kEqual, kSummed};
  table["avg_pool1d"] = {
      [](const Inputs& x, const json& a) -> Outputs {
        return {ops::AvgPool1d(x[0], a.at("kernel"), Pool1dOptionsOf(a), a.at("count_padding"))};
      },
      kSummed, kSummed};
  table["adaptive_avg_pool2d"] = {AdaptivePool2d<ops::AdaptiveAvgPool2d>, kSummed, kSummed};
  table["adaptive_max_pool2d"] = {AdaptivePool2d<ops::AdaptiveMaxPool2d>, kEqual, kSummed};
  table["adaptive_avg_pool1d"] = {AdaptivePool1d<ops::AdaptiveAvgPool1d>, kSummed, kSummed};
  table["adaptive_max_pool1d"] = {AdaptivePool1d<ops::AdaptiveMaxPool1d>, kEqual, kSummed};
}

void AddLossesAndSums(Table& table) {
  table["mse_loss"] = {Loss<ops::MseLoss>, kSummed, kRounded};
  table["l1_loss"] = {Loss<ops::L1Loss>, kSummed, kRounded};
  table["huber_loss"] = {[](const Inputs& x, const json& a) -> Outputs {
                           return {ops::HuberLoss(x[0], x[1], a.at("delta"), ReductionOf(a))};
                         },
                         kSummed, kRounded};
  table["bce_with_logits_loss"] = {Loss<ops::BceWithLogitsLoss>, kSummed, kCancelling};
  table["cross_entropy_loss"] = {CrossEntropyLoss, kSummed, kCancelling};
  table["sum"] = {OverDims<ops::Sum, ops::Sum>, kSummed, kEqual};
  table["mean"] = {OverDims<ops::Mean, ops::Mean>, kSummed, kRounded};
  table["max"] = {Max, kEqual, kEqual};
  table["arg_max"] = {AlongDim<ops::ArgMax>, kEqual, kEqual};
  table["clip_grad_norm"] = {ClipGradNorm, kRounded, kEqual};
}

void AddRearranging(Table& table) {
  table["reshape"] = {[](const Inputs& x, const json& a) -> Outputs {
                        const std::vector<int64_t> shape = a.at("shape");
                        return {ops::Reshape(x[0], ops::Shape(shape))};
                      },
                      kEqual, kEqual};
  table["flatten"] = {[](const Inputs& x, const json& a) -> Outputs {
                        return {ops::Flatten(x[0], a.at("first_dim"))};
                      },
                      kEqual, kEqual};
  table["transpose"] = {[](const Inputs& x, const json& a) -> Outputs {
                          return {ops::Transpose(x[0], a.at("dim0"), a.at("dim1"))};
                        },
                        kEqual, kEqual};
  table["permute"] = {
      [](const Inputs& x, const json& a) -> Outputs { return {ops::Permute(x[0], a.at("dims"))}; },
      kEqual, kEqual};
  table["concatenate"] = {Concatenate, kEqual, kEqual};
  table["slice"] = {[](const Inputs& x, const json& a) -> Outputs {
                      return {ops::Slice(x[0], a.at("dim"), a.at("begin"), a.at("end"))};
                    },
                    kEqual, kEqual};
  table["split"] = {Split, kEqual, kEqual};
  table["pad"] = {Pad, kEqual, kEqual};
}

Table MakeTable() {
  Table table;
  AddElementwise(table);
  AddRowwise(table);
  AddProducts(table);
  AddPooling(table);
  AddLossesAndSums(table);
  AddRearranging(table);
  return table;
}

}  // namespace

const Operator& FindOperator(const std::string& function) {
  static const Table table = MakeTable();
  const auto found = table.find(function);
  if (found == table.end()) {
    throw std::out_of_range(fmt::format("no function {} in the table of operators", function));
  }
  return found->second;
}

}  // namespace parity
