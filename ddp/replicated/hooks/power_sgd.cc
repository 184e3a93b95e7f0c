#include "ddp/replicated/hooks/power_sgd.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ddp/replicated/hooks/bucket_states.h"
#include "ddp/replicated/hooks/orthonormalize.h"
#include "ddp/replicated/hooks/step_counter.h"
#include "ops/cpu/matmul.h"
#include "ops/tensor/random.h"

namespace ddp {
namespace {

using ops::DType;
using ops::Tensor;

enum Message { kWhole, kP, kQ, kNumMessages };

// What the inner hook sees.
GradientBucket MessageOf(const GradientBucket& bucket, Message message, const Tensor& content) {
  GradientBucket sent = bucket;
  sent.index = kNumMessages * bucket.index + message;
  sent.num_buckets = kNumMessages * bucket.num_buckets;
  if (message != kWhole) {
    sent.gradients = content;
    sent.parts = {{fmt::format("power_sgd.{}", message == kP ? "p" : "q"), content}};
  }
  return sent;
}

// Tensors one behind the other in one of `dtype`, and back.
Tensor Pack(const std::vector<Tensor>& tensors, DType dtype) {
  int64_t num_elements = 0;
  for (const Tensor& tensor : tensors) num_elements += tensor.num_elements();
  const Tensor packed = Tensor::Empty({num_elements}, {.dtype = dtype});
  int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t end = begin + tensor.num_elements();
    packed.Slice(begin, end).View(tensor.shape()).CopyFrom(tensor);
    begin = end;
  }
  return packed;
}

void Unpack(const Tensor& packed, const std::vector<Tensor>& tensors) {
  int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const int64_t end = begin + tensor.num_elements();
    tensor.CopyFrom(packed.Slice(begin, end).View(tensor.shape()));
    begin = end;
  }
}

// p [rank, rows] and q [rank, columns] to [rows, columns]. In plain loops, the same bits on every
// CPU.
Tensor Product(const Tensor& p, const Tensor& q) {
  const int64_t rank = p.dim(0), rows = p.dim(1), columns = q.dim(1);
  const Tensor product = Tensor::Zeros({rows, columns});
  for (int64_t i = 0; i < rows; ++i) {
    float* const to = product.data<float>() + i * columns;
    for (int64_t r = 0; r < rank; ++r) {
      const float factor = p.data<float>()[r * rows + i];
      const float* const from = q.data<float>() + r * columns;
      for (int64_t j = 0; j < columns; ++j) to[j] += factor * from[j];
    }
  }
  return product;
}

// to += factor * from.
void AddTo(const Tensor& to, const Tensor& from, float factor) {
  float* const sums = to.data<float>();
  const float* const values = from.data<float>();
  for (int64_t i = 0; i < to.num_elements(); ++i) sums[i] += factor * values[i];
}

bool IsFinite(const Tensor& tensor) {
  return std::ranges::all_of(tensor.elements<float>(), [](float x) { return std::isfinite(x); });
}

// A gradient that is compressed, and what is remembered of it.
struct Matrix {
  size_t part;
  ops::Shape shape;  // [rows, columns]
  int64_t rank;
  Tensor residual;  // of `shape`; undefined: nothing
  Tensor q;         // [rank, columns]; undefined: yet to be drawn
};

// What is remembered of a bucket.
struct Factors {
  Factors(const GradientBucket& bucket, const PowerSgdOptions& options)
      : generator(options.seed, /*stream=*/bucket.index) {
    for (size_t part = 0; part < bucket.parts.size(); ++part) {
      const Tensor& gradient = bucket.parts[part].tensor;
      const int64_t size = gradient.num_elements();
      const int64_t rows = gradient.shape().rank() < 2 ? size : gradient.dim(0);
      const int64_t columns = rows == 0 ? 0 : size / rows;
      const double compressed = (rows + columns) * options.matrix_approximation_rank;
      if (columns > 1 && compressed * options.min_compression_rate < size) {
        const int64_t rank =
            std::min<int64_t>(options.matrix_approximation_rank, std::min(rows, columns));
        matrices.push_back({part, {rows, columns}, rank, {}, {}});
      } else {
        rest.push_back(part);
      }
    }
  }

  std::vector<Matrix> matrices;
  std::vector<size_t> rest;  // the parts that travel as they are
  ops::Generator generator;
};

// One bucket on its way.
struct Round {
  GradientBucket bucket;
  std::shared_ptr<Factors> factors;
  std::vector<Tensor> values;  // of each matrix, in float32, with what was lacking before
  std::vector<Tensor> p;
};

class PowerSgdHook {
 public:
  PowerSgdHook(const PowerSgdOptions& options, CommunicationHook inner)
      : options_(options), inner_(std::move(inner)), steps_(options.first_step) {}

  std::shared_ptr<Work> Send(ProcessGroup& group, const GradientBucket& bucket) {
    const bool started = steps_.StepOf(bucket) >= options_.start_step;
    if (!started) return inner_(group, MessageOf(bucket, kWhole, {}));
    auto round = std::make_shared<Round>();
    round->bucket = bucket;
    round->factors = states_.Of(bucket, bucket, options_);
    if (round->factors->matrices.empty()) return inner_(group, MessageOf(bucket, kWhole, {}));

    for (Matrix& matrix : round->factors->matrices) {
      const Tensor value = bucket.parts[matrix.part].tensor.View(matrix.shape).To(DType::kFloat32);
      if (matrix.residual.defined()) AddTo(value, matrix.residual, 1);
      PrepareQ(matrix, round->factors->generator);
      const Tensor p = Tensor::Empty({matrix.rank, matrix.shape[0]});
      ops::cpu::MatMul(matrix.q, value, p, {.transpose_b = true});
      round->values.push_back(value);
      round->p.push_back(p);
    }
    const Tensor message = Pack(FirstMessage(*round), bucket.gradients.dtype());
    return Then(inner_(group, MessageOf(bucket, kP, message)),
                [this, &group, round, message] { Finish(group, *round, message); });
  }

 private:
  // The same on all ranks.
  void PrepareQ(Matrix& matrix, ops::Generator& generator) const {
    if (!matrix.q.defined() || !options_.warm_start) {
      matrix.q = Tensor::Randn({matrix.rank, matrix.shape[1]}, generator);
    }
    // A direction that the last gradient didn't have is looked for anew.
    const auto vanished = Orthonormalize(matrix.q, options_.orthogonalization_epsilon);
    for (const int64_t r : vanished) generator.FillNormal(matrix.q.Slice(r, r + 1), 0, 1);
    if (!vanished.empty()) Orthonormalize(matrix.q, options_.orthogonalization_epsilon);
  }

  static std::vector<Tensor> FirstMessage(const Round& round) {
    std::vector<Tensor> tensors;
    for (const size_t part : round.factors->rest) {
      tensors.push_back(round.bucket.parts[part].tensor);
    }
    tensors.insert(tensors.end(), round.p.begin(), round.p.end());
    return tensors;
  }

  // `message`: the sum of the first ones.
  void Finish(ProcessGroup& group, const Round& round, const Tensor& message) const {
    std::vector<Matrix>& matrices = round.factors->matrices;
    Unpack(message, FirstMessage(round));
    std::vector<Tensor> q;
    for (size_t k = 0; k < matrices.size(); ++k) {
      Orthonormalize(round.p[k], options_.orthogonalization_epsilon);
      ops::cpu::MatMul(round.p[k], round.values[k], matrices[k].q);
      q.push_back(matrices[k].q);
    }
    const Tensor second = Pack(q, round.bucket.gradients.dtype());
    inner_(group, MessageOf(round.bucket, kQ, second))->Wait();
    Unpack(second, q);
    for (size_t k = 0; k < matrices.size(); ++k) {
      const Tensor& gradient = round.bucket.parts[matrices[k].part].tensor;
      gradient.View(matrices[k].shape).CopyFrom(Product(round.p[k], matrices[k].q));
      Remember(matrices[k], round.values[k], gradient, group.size());
    }
  }

  // `value`: what this rank wanted to give; `sum`: what came of all the ranks' values.
  void Remember(Matrix& matrix, const Tensor& value, const Tensor& sum, int num_ranks) const {
    if (!IsFinite(matrix.q)) {
      matrix.q = {};
    } else if (options_.use_error_feedback) {
      AddTo(value, sum.View(matrix.shape).To(DType::kFloat32), -1.0f / num_ranks);
      matrix.residual = value;
    }
  }

  const PowerSgdOptions options_;
  const CommunicationHook inner_;
  StepCounter steps_;
  BucketStates<Factors> states_;
};

}  // namespace

CommunicationHook PowerSgd(const PowerSgdOptions& options, CommunicationHook inner) {
  if (options.matrix_approximation_rank < 1) {
    throw std::invalid_argument(
        fmt::format("powersgd: matrices of rank {}", options.matrix_approximation_rank));
  }
  return [hook = std::make_shared<PowerSgdHook>(options, std::move(inner))](
             ProcessGroup& group, const GradientBucket& bucket) {
    CheckGradients("powersgd", bucket);
    return hook->Send(group, bucket);
  };
}

}  // namespace ddp
