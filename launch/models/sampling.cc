#include "launch/models/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>

#include "ops/autograd/grad.h"
#include "ops/tensor/random.h"

namespace launch {
namespace {

using ops::Tensor;

// Evaluation mode, until the scope ends.
class ScopedEvaluation {
 public:
  explicit ScopedEvaluation(Gpt& model) : model_(model), was_training_(model.training()) {
    model_.Eval();
  }
  ~ScopedEvaluation() { model_.Train(was_training_); }
  ScopedEvaluation(const ScopedEvaluation&) = delete;
  ScopedEvaluation& operator=(const ScopedEvaluation&) = delete;

 private:
  Gpt& model_;
  const bool was_training_;
};

void Check(const std::vector<int64_t>& prompt, const SampleOptions& options, int64_t vocab) {
  if (prompt.empty()) throw std::invalid_argument("a sample needs a prompt of at least one token");
  for (const int64_t token : prompt) {
    if (token >= 0 && token < vocab) continue;
    throw std::invalid_argument(
        fmt::format("the prompt has token {}, but the vocabulary has {}", token, vocab));
  }
  if (options.max_tokens < 0 || options.top_k < 0 || !(options.temperature >= 0) ||
      std::isinf(options.temperature)) {
    throw std::invalid_argument(
        fmt::format("max_tokens {}, top_k {} and temperature {}: expected numbers of at least 0",
                    options.max_tokens, options.top_k, options.temperature));
  }
}

// What the model expects after the tokens: one logit a token of the vocabulary. They can be put
// in order, as NaN can't.
std::vector<float> LogitsAfter(Gpt& model, const std::vector<int64_t>& tokens) {
  const int64_t time = std::min(model.options().context, static_cast<int64_t>(tokens.size()));
  const std::vector<int64_t> seen(tokens.end() - time, tokens.end());
  const Tensor logits = model.Forward(Tensor::FromVector(seen, {1, time}));
  std::vector<float> last =
      logits.View({time, logits.dim(-1)}).Slice(time - 1, time).ToVector<float>();
  if (!std::ranges::all_of(last, [](float logit) { return std::isfinite(logit); })) {
    throw std::invalid_argument(
        "the model has weights that are infinite or no numbers, so that it expects nothing");
  }
  return last;
}

int64_t Draw(const std::vector<float>& logits, const SampleOptions& options,
             ops::Generator& generator) {
  std::vector<int64_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto vocab = static_cast<int64_t>(order.size());
  const bool greedy = options.temperature == 0;
  const int64_t count = greedy ? 1 : options.top_k == 0 ? vocab : std::min(options.top_k, vocab);
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t a, int64_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  if (greedy) return order[0];
  std::vector<double> weights;
  for (const int64_t token : std::span(order).first(count)) {
    weights.push_back(std::exp((logits[token] - logits[order[0]]) / options.temperature));
  }
  double left = generator.Uniform() * std::reduce(weights.begin(), weights.end());
  for (int64_t i = 0; i + 1 < count; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[count - 1];
}

}  // namespace

std::vector<int64_t> Sample(Gpt& model, std::vector<int64_t> prompt, const SampleOptions& options) {
  Check(prompt, options, model.options().vocab);
  const ops::NoGradGuard no_grad;
  const ScopedEvaluation evaluation(model);
  ops::Generator generator(options.seed);
  const auto prompt_size = static_cast<int64_t>(prompt.size());
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    prompt.push_back(Draw(LogitsAfter(model, prompt), options, generator));
  }
  return {prompt.begin() + prompt_size, prompt.end()};
}

std::vector<int64_t> TokensOf(std::string_view text) {
  std::vector<int64_t> tokens;
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string TextOf(const std::vector<int64_t>& tokens) {
  std::string text;
  for (const int64_t token : tokens) {
    const bool is_control = (token < ' ' && token != '\n' && token != '\t') || token == 0x7f;
    text += is_control ? '?' : static_cast<char>(token);
  }
  return text;
}

}  // namespace launch
