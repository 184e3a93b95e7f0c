// What decides a model's extents, as plain values.
#pragma once

#include <cstdint>
#include <vector>

namespace launch {

struct GptOptions {
  int64_t layers = 4;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t context = 128;  // the longest sequence
  int64_t vocab = 512;
};

// Throws std::invalid_argument, with name and value, for extents below 1, and for a width that
// isn't a multiple of the heads.
void CheckGptOptions(const GptOptions& options);

// Images that a model sees, and the classes it tells apart.
struct ImageOptions {
  int64_t channels = 1;
  int64_t height = 28;
  int64_t width = 28;
  int64_t classes = 10;

  int64_t num_pixels() const { return channels * height * width; }
};

struct ModelOptions {
  std::vector<int64_t> hidden = {1024, 1024};  // mlp
  GptOptions gpt = {};
  ImageOptions images = {};  // mlp, convnet, resnet
};

}  // namespace launch
