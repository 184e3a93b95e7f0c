// Text from a language model: token after token, each drawn from what the model expects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/models/gpt.h"

namespace launch {

struct SampleOptions {
  int64_t max_tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 40;        // from this many of the likeliest; 0: from all
  uint64_t seed = 0;
};

// The tokens that the model puts after `prompt`, which has at least one; the last of the context's
// length are what it sees. Depends on model, prompt and options alone. Throws std::invalid_argument
// for options that make no sense, an empty prompt, a token outside the vocabulary, and a model
// whose logits aren't finite.
std::vector<int64_t> Sample(Gpt& model, std::vector<int64_t> prompt, const SampleOptions& options);

// Bytes as tokens, and back. Control characters but newline and tab become '?', so that a terminal
// shows the text and obeys nothing.
std::vector<int64_t> TokensOf(std::string_view text);
std::string TextOf(const std::vector<int64_t>& tokens);

}  // namespace launch
