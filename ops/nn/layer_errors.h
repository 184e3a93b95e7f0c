// What a layer says of an input that the function behind it refuses.
#pragma once

#include <stdexcept>
#include <string_view>

#include "ops/nn/module.h"

namespace ops::nn {

// Throws std::invalid_argument with `message`, which begins with the function's name and a colon,
// and the layer's path after the name: "Conv2d 'stem.conv': input ...".
[[noreturn]] void ThrowWithPath(const Module& layer, std::string_view message);

// forward(), whose std::invalid_argument gets the layer's path.
template <class F>
Tensor NamingLayer(const Module& layer, F forward) {
  try {
    return forward();
  } catch (const std::invalid_argument& error) {
    ThrowWithPath(layer, error.what());
  }
}

}  // namespace ops::nn
