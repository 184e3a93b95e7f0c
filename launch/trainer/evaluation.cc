#include "launch/trainer/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "ddp/data/data_loader.h"
#include "launch/trainer/precision.h"
#include "ops/autograd/grad.h"

namespace launch {
namespace {

// Sums over examples, laid out to be added up over the ranks.
struct Sums {
  double loss = 0;
  double correct = 0;
  double examples = 0;
  double stopped = 0;  // ranks that haven't seen all of theirs
};

Sums SumOverMyExamples(ops::nn::Module& model, Task task, ddp::DataLoader& loader,
                       ops::DType precision, const std::function<bool()>& stops) {
  const Loss loss_of = LossOf(task);
  Sums sums;
  for (const ddp::Batch& batch : loader) {
    if (stops()) {
      sums.stopped = 1;
      break;
    }
    const ops::Tensor outputs = OutputsOf(model, batch.inputs, precision);
    const auto size = static_cast<double>(batch.size());
    sums.loss += size * loss_of(outputs, batch.targets).Item();
    if (task == Task::kClassification) {
      sums.correct += static_cast<double>(CountCorrect(outputs, batch.targets));
    }
    sums.examples += size;
  }
  return sums;
}

}  // namespace

std::optional<Evaluation> Evaluate(ops::nn::Module& model, Task task, const ddp::Dataset& data,
                                   int64_t batch_size, ddp::ProcessGroup& group,
                                   ops::DType precision, const std::function<bool()>& stops) {
  const ddp::DistributedSampler sampler(data.size(),
                                        {.rank = group.rank(),
                                         .world_size = group.size(),
                                         .shuffle = false,
                                         .uneven = ddp::DistributedSamplerOptions::Uneven::kExact});
  const ops::NoGradGuard no_grad;
  model.Eval();
  Sums sums;
  if (sampler.num_examples() > 0) {
    ddp::DataLoader loader(data, sampler, {.batch_size = batch_size});
    sums = SumOverMyExamples(model, task, loader, precision, stops);
  }
  model.Train();
  group
      .AllReduce({.data = &sums, .num_elements = 4, .dtype = ops::DType::kFloat64},
                 ddp::ReduceOp::kSum)
      ->Wait();
  if (sums.stopped > 0) return std::nullopt;
  Evaluation evaluation;
  evaluation.loss = sums.loss / sums.examples;
  if (task == Task::kClassification) evaluation.accuracy = sums.correct / sums.examples;
  if (task == Task::kLanguage) evaluation.perplexity = std::exp(evaluation.loss);
  return evaluation;
}

std::string Describe(const Evaluation& evaluation, std::string_view separator) {
  std::string text = fmt::format("test loss {:.4f}", evaluation.loss);
  if (evaluation.accuracy) {
    text += fmt::format("{}accuracy {:.2f} %", separator, 100 * *evaluation.accuracy);
  }
  if (evaluation.perplexity) {
    text += fmt::format("{}perplexity {:.4g}", separator, *evaluation.perplexity);
  }
  return text;
}

int64_t CountCorrect(const ops::Tensor& logits, const ops::Tensor& targets) {
  const std::span<const float> values = logits.elements<float>();
  const std::span<const int64_t> classes = targets.elements<int64_t>();
  const int64_t width = logits.dim(1);
  int64_t correct = 0;
  for (size_t row = 0; row < classes.size(); ++row) {
    const auto begin = values.begin() + static_cast<int64_t>(row) * width;
    correct += std::max_element(begin, begin + width) - begin == classes[row];
  }
  return correct;
}

}  // namespace launch
