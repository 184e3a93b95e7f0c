// Lets a language model that was trained write text.
//
//   bazel run //launch:train -- --model=gpt --data=text:FILE --save=gpt.safetensors
//   bazel run //launch:sample -- --checkpoint=gpt.safetensors --prompt="The licence"
#include <absl/flags/flag.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "launch/flags/parser.h"
#include "launch/models/gpt_weights.h"
#include "launch/models/sampling.h"
#include "launch/topology/topology.h"

ABSL_FLAG(std::string, checkpoint, "", "weights of a gpt, as safetensors");
ABSL_FLAG(std::string, prompt, "\n",
          "what comes first; text for a model of bytes, else token ids with commas between");
ABSL_FLAG(int64_t, max_tokens, 200, "how many tokens to write");
ABSL_FLAG(double, temperature, 0.8, "below 1: more often the likeliest; 0: always");
ABSL_FLAG(int64_t, top_k, 40, "choose from this many of the likeliest tokens; 0: from all");
ABSL_FLAG(int64_t, seed, 0, "of the choices");
ABSL_FLAG(std::optional<int64_t>, heads, std::nullopt,
          "attention heads, where the file doesn't tell; as GPT-2: width / 64");

namespace launch {
namespace {

constexpr int64_t kBytes = 256;  // the vocabulary of a model of bytes

const FlagGroups& Groups() {
  static const FlagGroups groups = {
      {"Model", {"checkpoint", "heads"}},
      {"Text", {"prompt", "max_tokens", "temperature", "top_k", "seed"}}};
  return groups;
}

std::vector<int64_t> ParseIds(const std::string& text) {
  if (const auto ids = ParseWholeNumbers(text)) return *ids;
  throw std::invalid_argument(fmt::format(
      "--prompt={}: this model's tokens are no bytes; expected ids, such as 15496,11", text));
}

void Run() {
  const std::string path =
      FromUsersDirectory(absl::GetFlag(FLAGS_checkpoint), ProcessEnvironment());
  if (path.empty()) throw std::invalid_argument("--checkpoint=FILE is needed: a gpt's weights");
  const auto model = LoadGpt(path, absl::GetFlag(FLAGS_heads));
  const bool is_text = model->options().vocab == kBytes;
  const std::string prompt = absl::GetFlag(FLAGS_prompt);
  const std::vector<int64_t> sample =
      Sample(*model, is_text ? TokensOf(prompt) : ParseIds(prompt),
             {.max_tokens = absl::GetFlag(FLAGS_max_tokens),
              .temperature = absl::GetFlag(FLAGS_temperature),
              .top_k = absl::GetFlag(FLAGS_top_k),
              .seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed))});
  if (is_text) {
    fmt::print("{}{}\n", prompt, TextOf(sample));
  } else {
    fmt::print("{},{}\n", prompt, fmt::join(sample, ","));
  }
}

}  // namespace
}  // namespace launch

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (launch::AsksForHelp(arguments)) {
    fmt::print("Lets a trained gpt write text.\n\n{}", launch::DescribeFlags(launch::Groups(), {}));
    return 0;
  }
  try {
    launch::SetFlags(arguments, launch::Groups());
    launch::Run();
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
