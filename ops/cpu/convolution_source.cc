#include "ops/cpu/convolution_source.h"

#include <algorithm>

#include "ops/cpu/isa.h"

namespace ops::cpu {
namespace {

// The elements of a plane's row or column that have a source, and the first such source.
struct Range {
  int64_t begin, end, source;
};

// Of `count` elements, the first of which is first_index * stride + residue in the source.
Range Inside(const CorrelationAxis& axis, int64_t first_index, int64_t residue, int64_t count) {
  const int64_t extent =
      (axis.source_extent - residue + axis.source_stride - 1) / axis.source_stride;
  const int64_t begin = std::clamp<int64_t>(-first_index, 0, count);
  const int64_t end = std::clamp<int64_t>(extent - first_index, begin, count);
  return {begin, end, (begin + first_index) * axis.source_stride + residue};
}

}  // namespace

const ConvolutionKernels& ConvolutionKernelsOf(DType dtype) {
  const auto& kernels =
      ForIsa(baseline::kConvolutionKernels, avx2::kConvolutionKernels, avx512::kConvolutionKernels);
  return kernels[static_cast<int>(dtype)];
}

DType ComputeType(DType dtype) {
  return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
}

// What is read beyond the planes counts for nothing, but subnormal numbers would cost time.
Tensor PlanesFor(const CorrelationPlan& plan, int64_t channels, DType dtype) {
  const int64_t elements = channels * plan.channel_elements();
  const Tensor planes = Tensor::Empty({elements + kOverrun}, {.dtype = dtype});
  planes.Slice(elements, elements + kOverrun).FillZero();
  return planes;
}

void FillPlanes(const CorrelationPlan& plan, const CorrelationBlock& block, const Tensor& x,
                int64_t first_channel, int64_t num_channels, const Tensor& planes) {
  const auto pad = ConvolutionKernelsOf(x.dtype()).pad;
  const CorrelationAxis &height = plan.height(), &width = plan.width();
  const int64_t size = SizeOf(x.dtype()), compute_size = SizeOf(ComputeType(x.dtype()));
  const int64_t num_planes = height.num_planes() * width.num_planes();
  const int64_t plane_rows = block.num_rows + height.max_shift;
  for (int64_t plane = 0; plane < num_planes; ++plane) {
    const Range rows = Inside(height, height.first_index + block.first_row,
                              height.source_residues[plane / width.num_planes()], plane_rows);
    const Range columns = Inside(width, width.first_index,
                                 width.source_residues[plane % width.num_planes()], plan.pitch());
    Padded padded = {.from = nullptr,
                     .row_stride = x.dim(3) * height.source_stride,
                     .column_stride = width.source_stride,
                     .first_row = rows.begin,
                     .end_row = rows.end,
                     .first_column = columns.begin,
                     .end_column = columns.end,
                     .rows = plane_rows,
                     .columns = plan.pitch(),
                     .out = nullptr};
    for (int64_t channel = 0; channel < num_channels; ++channel) {
      for (int64_t image = 0; image < block.num_images; ++image) {
        const int64_t matrix = (block.first_image + image) * x.dim(1) + first_channel + channel;
        const int64_t from = (matrix * x.dim(2) + rows.source) * x.dim(3) + columns.source;
        const int64_t to = channel * plan.channel_elements() + plane * plan.plane_elements() +
                           image * plan.image_elements();
        padded.from = x.raw_data() + from * size;
        padded.out = planes.raw_data() + to * compute_size;
        pad(padded);
      }
    }
  }
}

}  // namespace ops::cpu
