// Each function of ops/autograd against PyTorch's outputs and gradients (operator_goldens.py), on
// ordinary, odd, empty and extreme inputs.
#include "tests/parity/operators.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "ddp/checkpoint/safetensors.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/thread_pool.h"

namespace parity {
namespace {

using nlohmann::json;
using ops::DType;
using ops::Tensor;

constexpr const char* kFamilies[] = {
    "activations", "attention",     "clipping", "convolution", "elementwise", "embedding", "loss",
    "matmul",      "normalization", "pooling",  "rearrange",   "reduce",      "softmax",
};

using Tensors = std::vector<Tensor>;  // by number; undefined where there is none

struct Case {
  std::string family, name;
  json attributes;
  DType dtype;
  Tensors x, dy;  // dy: undefined for outputs without gradient
  Tensors y, dx;  // what PyTorch found; dx: undefined for inputs without gradient
};

// What GoogleTest prints for a case that failed.
void PrintTo(const Case& c, std::ostream* out) { *out << c.attributes.dump(); }

// PREFIX0, PREFIX1, ..., as many as `count`.
Tensors Numbered(const std::map<std::string, Tensor>& file, const std::string& prefix, int count) {
  Tensors tensors(count);
  for (int i = 0; i < count; ++i) {
    const auto found = file.find(prefix + std::to_string(i));
    if (found != file.end()) tensors[i] = found->second;
  }
  return tensors;
}

Tensors Converted(Tensors tensors, DType dtype) {
  for (Tensor& tensor : tensors) {
    if (tensor.defined() && ops::IsFloating(tensor.dtype())) tensor = tensor.To(dtype);
  }
  return tensors;
}

constexpr int kMaxTensors = 5;  // inputs or outputs of a case

std::vector<Case> ReadFamily(const std::string& family) {
  const std::string path = "tests/parity/goldens/operators/" + family + ".safetensors";
  std::map<std::string, Tensor> file;
  for (const auto& [name, tensor] : ddp::ReadSafetensors(path)) file[name] = tensor;
  std::vector<Case> cases;
  const json descriptions = json::parse(ddp::ReadSafetensorsMetadata(path).at("cases"));
  for (const auto& [name, attributes] : descriptions.items()) {
    for (const json& dtype_name : attributes.at("dtypes")) {
      const DType dtype = dtype_name == "float32"   ? DType::kFloat32
                          : dtype_name == "float64" ? DType::kFloat64
                                                    : DType::kBFloat16;
      const std::string results = name + "/" + dtype_name.get<std::string>();
      cases.push_back({family, name, attributes, dtype,
                       Converted(Numbered(file, name + "/x", kMaxTensors), dtype),
                       Numbered(file, name + "/dy", kMaxTensors),
                       Numbered(file, results + "/y", kMaxTensors),
                       Converted(Numbered(file, results + "/dx", kMaxTensors), dtype)});
    }
  }
  return cases;
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const char* family : kFamilies) {
    for (Case& c : ReadFamily(family)) cases.push_back(std::move(c));
  }
  return cases;
}

// ---------------------------------------------------------------- running a case
struct Results {
  Tensors y, dx;
};

// Copies, for a function may change its inputs; those that PyTorch has a gradient for are leaves.
Tensors FreshInputs(const Case& c) {
  Tensors inputs;
  for (size_t i = 0; i < c.x.size(); ++i) {
    inputs.push_back(c.x[i].defined() ? c.x[i].Clone() : Tensor());
    if (c.dx[i].defined()) ops::SetRequiresGrad(inputs[i]);
  }
  return inputs;
}

void BackwardFrom(const Tensors& y, const Tensors& dy) {
  Tensor total;  // whose gradient with respect to each output is exactly its dy
  for (size_t i = 0; i < y.size(); ++i) {
    if (!dy[i].defined()) continue;
    const Tensor part = ops::Sum(ops::Multiply(y[i], dy[i].To(y[i].dtype())));
    total = total.defined() ? ops::Add(total, part) : part;
  }
  ops::Backward(total);
}

bool HasGradient(const Case& c) {
  return std::any_of(c.dy.begin(), c.dy.end(), [](const Tensor& dy) { return dy.defined(); });
}

Results RunCase(const Case& c) {
  const Operator& op = FindOperator(c.attributes.at("function"));
  const Tensors inputs = FreshInputs(c);
  Results results;
  results.y = op.function(inputs, c.attributes);
  results.y.resize(kMaxTensors);
  results.dx.resize(kMaxTensors);
  if (!HasGradient(c)) return results;
  BackwardFrom(results.y, c.dy);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (c.dx[i].defined()) results.dx[i] = ops::Grad(inputs[i]);
  }
  return results;
}

// ---------------------------------------------------------------- comparing
double SpacingAtOne(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return std::ldexp(1, -52);
    case DType::kFloat32:
      return std::ldexp(1, -23);
    case DType::kFloat16:
      return std::ldexp(1, -10);
    default:
      return std::ldexp(1, -7);
  }
}

double SmallestNormal(DType dtype) {
  if (dtype == DType::kFloat64) return std::numeric_limits<double>::min();
  return dtype == DType::kFloat16 ? std::ldexp(1, -14) : std::numeric_limits<float>::min();
}

// Results of 16 bits are rounded once from nearly equal values: to the same number or to
// neighbouring ones, however the function calculates.
double AllowedError(const Tolerance& tolerance, DType dtype, double element, double largest) {
  const double spacings =
      SizeOf(dtype) == 2 ? std::fmin(tolerance.spacings, 1) : tolerance.spacings;
  double scale = std::fmax(std::abs(element), SmallestNormal(dtype));
  if (tolerance.scale == Tolerance::Scale::kUnit) scale = std::fmax(scale, 1);
  if (tolerance.scale == Tolerance::Scale::kLargest) scale = std::fmax(scale, largest);
  return spacings * SpacingAtOne(dtype) * scale +
         (tolerance.subnormal_is_zero ? SmallestNormal(dtype) : 0);
}

bool IsNear(double actual, double expected, double allowed) {
  if (std::isnan(expected)) return std::isnan(actual);
  return actual == expected || std::abs(actual - expected) <= allowed;
}

double LargestFinite(const std::vector<double>& values) {
  double largest = 0;
  for (const double v : values) {
    if (std::isfinite(v)) largest = std::fmax(largest, std::abs(v));
  }
  return largest;
}

void ExpectNear(const Tensor& actual, const Tensor& expected, const Tolerance& tolerance,
                const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (!expected.defined()) return;
  ASSERT_EQ(actual.Describe(), expected.Describe()) << what;
  const auto got = actual.ToVector<double>(), wanted = expected.ToVector<double>();
  const double largest = LargestFinite(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double allowed = AllowedError(tolerance, expected.dtype(), wanted[i], largest);
    EXPECT_TRUE(IsNear(got[i], wanted[i], allowed))
        << fmt::format("{}[{}]: {} instead of {}, allowed {}", what, i, got[i], wanted[i], allowed);
  }
}

void ExpectSameBits(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.defined(), b.defined()) << what;
  if (!a.defined()) return;
  EXPECT_TRUE(std::memcmp(a.raw_data(), b.raw_data(), a.num_bytes()) == 0) << what;
}

class Operators : public ::testing::TestWithParam<Case> {};

TEST_P(Operators, GiveWhatPyTorchGives) {
  const Case& c = GetParam();
  const Operator& op = FindOperator(c.attributes.at("function"));
  for (const ops::cpu::Isa isa : ops::cpu::SupportedIsas()) {
    SCOPED_TRACE(ops::cpu::Name(isa));
    const ops::cpu::ScopedIsa use(isa);
    const Results results = RunCase(c);
    for (int i = 0; i < kMaxTensors; ++i) {
      ExpectNear(results.y[i], c.y[i], op.outputs, fmt::format("y{}", i));
      ExpectNear(results.dx[i], c.dx[i], op.gradients, fmt::format("dx{}", i));
    }
  }
}

TEST_P(Operators, GiveTheSameBitsOnTwoThreads) {
  const Case& c = GetParam();
  const Results alone = RunCase(c);
  ops::cpu::ThreadPool pool(2);
  const ops::cpu::ScopedThreadPool use(&pool);
  const Results both = RunCase(c);
  for (int i = 0; i < kMaxTensors; ++i) {
    ExpectSameBits(alone.y[i], both.y[i], fmt::format("y{}", i));
    ExpectSameBits(alone.dx[i], both.dx[i], fmt::format("dx{}", i));
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, Operators, ::testing::ValuesIn(AllCases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           return info.param.family + "_" + info.param.name + "_" +
                                  std::string(ops::Name(info.param.dtype));
                         });

TEST(OperatorTable, RefusesAnUnknownFunction) {
  EXPECT_THROW(FindOperator("no_such_function"), std::out_of_range);
}

}  // namespace
}  // namespace parity
