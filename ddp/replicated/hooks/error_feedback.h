// Error feedback: what compression lost of a gradient is added to the gradient of the next step, so
// that over many steps nothing is lost (Karimireddy et al., "Error Feedback Fixes SignSGD and other
// Gradient Compression Schemes", ICML 2019).
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace ddp {

class ErrorFeedback {
 public:
  explicit ErrorFeedback(size_t num_elements) : residual_(num_elements) {}

  // Adds what was lost before.
  void AddTo(std::span<float> values) const {
    for (size_t i = 0; i < values.size(); ++i) values[i] += residual_[i];
  }

  // Element i was `value` and travelled as `sent`. What isn't finite is not remembered: a step that
  // is skipped on its account leaves no trace.
  void Note(size_t i, float value, float sent) {
    const float lost = value - sent;
    residual_[i] = std::isfinite(lost) ? lost : residual_[i];
  }

 private:
  std::vector<float> residual_;
};

}  // namespace ddp
