#include "ops/cpu/optimizer.h"

#include <cmath>

namespace ops::cpu {

void SgdStep(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum_buffer,
             const SgdStepOptions& options) {
  DispatchFloat("SGD", parameter.dtype(), [&]<class T>() {
    const T rate = static_cast<T>(options.learning_rate);
    const T momentum = static_cast<T>(options.momentum);
    const T decay = static_cast<T>(options.weight_decay);
    for (int64_t i = 0; i < parameter.num_elements(); ++i) {
      T& p = parameter.data<T>()[i];
      T g = gradient.data<T>()[i] + decay * p;
      if (momentum != 0) {
        T& buffer = momentum_buffer.data<T>()[i];
        g = buffer = options.first_step ? g : momentum * buffer + g;
      }
      p -= rate * g;
    }
  });
}

void AdamStep(const Tensor& parameter, const Tensor& gradient, const Tensor& first_moment,
              const Tensor& second_moment, const AdamStepOptions& options) {
  const double correction1 = 1 - std::pow(options.beta1, options.step);
  const double correction2 = 1 - std::pow(options.beta2, options.step);
  DispatchFloat("Adam", parameter.dtype(), [&]<class T>() {
    const T step_size = static_cast<T>(options.learning_rate / correction1);
    const T root_correction = static_cast<T>(std::sqrt(correction2));
    const T beta1 = static_cast<T>(options.beta1), beta2 = static_cast<T>(options.beta2);
    const T rest1 = static_cast<T>(1 - options.beta1), rest2 = static_cast<T>(1 - options.beta2);
    const T epsilon = static_cast<T>(options.epsilon);
    const T keep = static_cast<T>(
        options.decoupled_weight_decay ? 1 - options.learning_rate * options.weight_decay : 1.0);
    const T decay = static_cast<T>(options.decoupled_weight_decay ? 0.0 : options.weight_decay);
    for (int64_t i = 0; i < parameter.num_elements(); ++i) {
      const T p = parameter.data<T>()[i] * keep;
      const T g = gradient.data<T>()[i] + decay * p;
      T& m = first_moment.data<T>()[i];
      T& v = second_moment.data<T>()[i];
      m = beta1 * m + rest1 * g;
      v = beta2 * v + rest2 * g * g;
      parameter.data<T>()[i] = p - step_size * m / (std::sqrt(v) / root_correction + epsilon);
    }
  });
}

}  // namespace ops::cpu
