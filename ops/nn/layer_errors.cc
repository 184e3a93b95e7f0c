#include "ops/nn/layer_errors.h"

#include <fmt/format.h>

namespace ops::nn {

void ThrowWithPath(const Module& layer, std::string_view message) {
  const std::string_view name = message.substr(0, message.find(':'));
  throw std::invalid_argument(
      fmt::format("{} '{}'{}", name, layer.Path(), message.substr(name.size())));
}

}  // namespace ops::nn
