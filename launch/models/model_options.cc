#include "launch/models/model_options.h"

#include <fmt/format.h>

#include <stdexcept>

namespace launch {
namespace {

void RequirePositive(const char* name, int64_t value) {
  if (value < 1) {
    throw std::invalid_argument(fmt::format("gpt: {} is {}, expected at least 1", name, value));
  }
}

}  // namespace

void CheckGptOptions(const GptOptions& options) {
  RequirePositive("layers", options.layers);
  RequirePositive("width", options.width);
  RequirePositive("heads", options.heads);
  RequirePositive("context", options.context);
  RequirePositive("vocab", options.vocab);
  if (options.width % options.heads != 0) {
    throw std::invalid_argument(
        fmt::format("gpt: width {} is not a multiple of {} heads", options.width, options.heads));
  }
}

}  // namespace launch
