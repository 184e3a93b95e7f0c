#include "ops/autograd/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>
#include <utility>

#include "ops/autograd/checks.h"
#include "ops/autograd/kernels.h"
#include "ops/autograd/node.h"

namespace ops {
namespace {

// Of packed qkv.
int64_t HeadWidth(std::string_view function, const Tensor& qkv, int64_t num_heads) {
  RequireDefined(function, {qkv});
  if (num_heads < 1 || qkv.shape().rank() != 3 || qkv.dim(2) % (3 * num_heads) != 0 ||
      !IsFloating(qkv.dtype())) {
    throw std::invalid_argument(fmt::format(
        "{}: expected floating point qkv [batch, time, 3 width] whose width is a multiple of "
        "num_heads, got {} and {} heads",
        function, qkv.Describe(), num_heads));
  }
  return qkv.dim(2) / (3 * num_heads);
}

}  // namespace

Tensor Attention(const Tensor& qkv, const AttentionOptions& options) {
  const int64_t head_width = HeadWidth("Attention", qkv, options.num_heads);
  const double scale =
      options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(head_width));
  const kernels::AttentionParameters parameters = {options.num_heads, options.causal, scale};
  const DType sums_dtype = qkv.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const int64_t batch = qkv.dim(0), time = qkv.dim(1);
  Tensor y = Tensor::Empty({batch, time, qkv.dim(2) / 3}, qkv.options());
  const Tensor log_sums =
      Tensor::Empty({batch, options.num_heads, time}, {sums_dtype, qkv.device()});
  kernels::AttentionForward(qkv, y, log_sums, parameters);
  if (!NeedsTape({qkv})) return y;
  const Tensor saved_y = Saved(y);
  return Record(
      "Attention", std::move(y), {qkv}, [=, qkv = Saved(qkv)](const Tensor& dy, Node& node) {
        const auto [place, accumulate] = node.input(0)->Target();
        kernels::AttentionBackward(qkv, saved_y, log_sums, dy, place, accumulate, parameters);
      });
}

Tensor RotaryEmbedding(const Tensor& qkv, const RotaryOptions& options) {
  const int64_t head_width = HeadWidth("RotaryEmbedding", qkv, options.num_heads);
  if (head_width % 2 != 0) {
    throw std::invalid_argument(
        fmt::format("RotaryEmbedding: {} with {} heads has heads of {}, expected an even number",
                    qkv.Describe(), options.num_heads, head_width));
  }
  const kernels::RotaryParameters parameters = {options.num_heads, options.base,
                                                options.first_position};
  Tensor y = Tensor::Empty(qkv.shape(), qkv.options());
  kernels::RotaryEmbedding(qkv, y, parameters, /*inverse=*/false, /*accumulate=*/false);
  if (!NeedsTape({qkv})) return y;
  return Record("RotaryEmbedding", std::move(y), {qkv}, [parameters](const Tensor& dy, Node& node) {
    const auto [place, accumulate] = node.input(0)->Target();
    kernels::RotaryEmbedding(dy, place, parameters, /*inverse=*/true, accumulate);
  });
}

}  // namespace ops
