// Normalisation on the CPU. Shapes and dtypes are the caller's to check; x, y, dy and dx have the
// same, one of the floating dtypes. Weights and biases may be undefined: then they are 1 and 0.
//
// `statistics` float64 [2, n] are the n means and then the n values 1 / sqrt(variance + epsilon),
// which a forward pass writes and its way back reads. dx may be dy.
#pragma once

#include <cstdint>

#include "ops/tensor/tensor.h"

namespace ops::cpu {

// Where a gradient goes, and whether it is added there; an undefined tensor wants none.
struct GradientPlace {
  Tensor tensor;
  bool accumulate = false;
};

// x [rows, width], weight and bias [width]. `centered`: LayerNorm; else RmsNorm, whose means are 0.
// Each row has its statistics.
void NormalizeRows(const Tensor& x, const Tensor& weight, const Tensor& bias, bool centered,
                   double epsilon, const Tensor& y, const Tensor& statistics);
void NormalizeRowsBackward(const Tensor& x, const Tensor& weight, bool centered,
                           const Tensor& statistics, const Tensor& dy, const GradientPlace& dx,
                           const GradientPlace& dweight, const GradientPlace& dbias);

// x [batch, channels, ...], weight and bias [channels]; statistics of each example's groups.
void GroupNorm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
               double epsilon, const Tensor& y, const Tensor& statistics);
void GroupNormBackward(const Tensor& x, int64_t groups, const Tensor& weight,
                       const Tensor& statistics, const Tensor& dy, const GradientPlace& dx,
                       const GradientPlace& dweight, const GradientPlace& dbias);

// What batch norm takes beside x: `training` says whose statistics are used, the batch's or the
// running ones [channels], of any floating dtype. With `relu`, y is cut off at 0.
//
// Where x is a part of a larger batch, `whole_moments` are that one's ChannelMoments, and
// `whole_size` counts its values a channel; undefined: x is all there is.
struct BatchNormParameters {
  Tensor weight = {}, bias = {};
  Tensor running_mean = {}, running_var = {};
  bool training = true;
  double momentum = 0.1;
  double epsilon = 1e-5;
  bool relu = false;
  Tensor whole_moments = {};
  int64_t whole_size = 0;
};

// The means and the biased variances of each channel of x [batch, channels, ...]: float64
// [2, channels]; 0 where x is empty.
void ChannelMoments(const Tensor& x, const Tensor& moments);

// x [batch, channels, ...]; each channel has its statistics. In training, moves the running ones,
// where they are defined: running += momentum (batch's - running), with the unbiased variance.
void BatchNorm(const Tensor& x, const BatchNormParameters& parameters, const Tensor& y,
               const Tensor& statistics);
void BatchNormBackward(const Tensor& x, const BatchNormParameters& parameters,
                       const Tensor& statistics, const Tensor& dy, const GradientPlace& dx,
                       const GradientPlace& dweight, const GradientPlace& dbias);

// The same in two parts, for x that is a part of a larger batch. `sums` float64 [2, channels], of
// dy and of dy (x - mean), are those of x where the first writes them, and those of the whole batch
// where the second reads them.
void BatchNormBackwardSums(const Tensor& x, const BatchNormParameters& parameters,
                           const Tensor& statistics, const Tensor& dy, const GradientPlace& dweight,
                           const GradientPlace& dbias, const Tensor& sums);
void BatchNormBackwardInput(const Tensor& x, const BatchNormParameters& parameters,
                            const Tensor& statistics, const Tensor& dy, const Tensor& sums,
                            const GradientPlace& dx);

}  // namespace ops::cpu
