#include "ops/cpu/convolution_products.h"

#include <algorithm>

#include "ops/cpu/convolution_source.h"
#include "ops/cpu/multiply.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

// Where products win. GFLOP/s of one thread with AVX-512 on a Xeon of 2.1 GHz, the direct kernels /
// products, 8 images:
//                          forward    towards x    towards the weight
//   3x3 256 at 14x14       123 / 140     68 / 102      121 / 113
//   3x3 512 at 7x7          86 / 136     61 / 116       75 / 99
//   1x1 256 -> 1024 at 14   80 / 132     66 / 126       59 / 99
constexpr int64_t kMinChannels = 128, kMaxPixels = 14 * 14;
// What the columns of the images that are multiplied at once take, at most if there are several.
constexpr int64_t kColumnElements = int64_t{4} << 20;
constexpr int64_t kChunkElements = 32768;

// The outputs along an axis, [begin, end), of which a tap reads a source inside, and the first such
// source.
struct Reach {
  int64_t begin, end, source;
};

Reach ReachOf(const ConvolutionAxis& axis, int64_t tap) {
  const int64_t before = axis.padding - tap * axis.dilation;  // of the first output's source
  const int64_t last = axis.in - 1 + before;
  const int64_t begin =
      std::clamp<int64_t>(before > 0 ? (before + axis.stride - 1) / axis.stride : 0, 0, axis.out);
  const int64_t end = std::clamp<int64_t>(last < 0 ? 0 : last / axis.stride + 1, begin, axis.out);
  return {begin, end, begin * axis.stride - before};
}

class Products {
 public:
  explicit Products(const ConvolutionShape& shape)
      : shape_(shape),
        taps_(shape.kernel_elements()),
        depth_(shape.in_channels * taps_),
        pixels_(shape.out_pixels()),
        images_(ImagesAtOnce()),
        columns_(Tensor::Empty({depth_, images_ * pixels_})),
        rows_(Tensor::Empty({shape.out_channels, images_ * pixels_})) {}

  void Forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
               bool accumulate) const {
    ForImages([&](int64_t first, int64_t count) {
      FillColumns(x, first, count);
      Multiply(MatrixProduct<float>{.m = shape_.out_channels,
                                    .n = count * pixels_,
                                    .k = depth_,
                                    .transpose_a = false,
                                    .transpose_b = false,
                                    .a = weight.data<float>(),
                                    .a_stride = depth_,
                                    .b = columns_.data<float>(),
                                    .b_stride = count * pixels_,
                                    .c = rows_.data<float>(),
                                    .c_stride = count * pixels_,
                                    .accumulate = false});
      PlaceRows(y, bias, first, count, accumulate);
    });
  }

  void BackwardData(const Tensor& dy, const Tensor& weight, const Tensor& bias, const Tensor& dx,
                    bool accumulate) const {
    ForImages([&](int64_t first, int64_t count) {
      FillRows(dy, first, count);
      Multiply(MatrixProduct<float>{.m = depth_,
                                    .n = count * pixels_,
                                    .k = shape_.out_channels,
                                    .transpose_a = true,
                                    .transpose_b = false,
                                    .a = weight.data<float>(),
                                    .a_stride = depth_,
                                    .b = rows_.data<float>(),
                                    .b_stride = count * pixels_,
                                    .c = columns_.data<float>(),
                                    .c_stride = count * pixels_,
                                    .accumulate = false});
      AddColumns(dx, bias, first, count, accumulate);
    });
  }

  void BackwardWeight(const Tensor& x, const Tensor& dy, const Tensor& dw, bool accumulate) const {
    ForImages([&](int64_t first, int64_t count) {
      FillColumns(x, first, count);
      FillRows(dy, first, count);
      Multiply(MatrixProduct<float>{.m = shape_.out_channels,
                                    .n = depth_,
                                    .k = count * pixels_,
                                    .transpose_a = false,
                                    .transpose_b = true,
                                    .a = rows_.data<float>(),
                                    .a_stride = count * pixels_,
                                    .b = columns_.data<float>(),
                                    .b_stride = count * pixels_,
                                    .c = dw.data<float>(),
                                    .c_stride = depth_,
                                    .accumulate = accumulate || first > 0});
    });
  }

 private:
  int64_t ImagesAtOnce() const {
    const int64_t most =
        std::max<int64_t>(1, kColumnElements / std::max<int64_t>(1, depth_ * pixels_));
    const int64_t pieces = (shape_.batch + most - 1) / most;
    return (shape_.batch + pieces - 1) / pieces;
  }

  // Calls body(first image, their number).
  template <class Body>
  void ForImages(Body body) const {
    for (int64_t first = 0; first < shape_.batch; first += images_) {
      body(first, std::min(images_, shape_.batch - first));
    }
  }

  // Calls body(channel, image) over the threads, those of a channel on one of them.
  template <class Body>
  void ForPlanes(int64_t channels, int64_t images, int64_t elements, Body body) const {
    ParallelFor(channels, 1 + kChunkElements / (1 + images * elements),
                [&](int64_t begin, int64_t end) {
                  for (int64_t channel = begin; channel < end; ++channel) {
                    for (int64_t image = 0; image < images; ++image) body(channel, image);
                  }
                });
  }

  // columns[channel and tap, image and output pixel] = the pixel of x that they meet in.
  void FillColumns(const Tensor& x, int64_t first, int64_t count) const {
    const auto pad = ConvolutionKernelsOf(x.dtype()).pad;
    ForPlanes(shape_.in_channels, count, taps_ * pixels_, [&](int64_t channel, int64_t image) {
      const float* const from = PlaneOf(x, first + image, channel);
      for (int64_t tap = 0; tap < taps_; ++tap) {
        const auto [rows, columns] = ReachesOf(tap);
        pad({.from = from + rows.source * shape_.width.in + columns.source,
             .row_stride = shape_.height.stride * shape_.width.in,
             .column_stride = shape_.width.stride,
             .first_row = rows.begin,
             .end_row = rows.end,
             .first_column = columns.begin,
             .end_column = columns.end,
             .rows = shape_.height.out,
             .columns = shape_.width.out,
             .out = ColumnsOf(channel, tap, image, count)});
      }
    });
  }

  // dx (+)= bias + what the columns hold for its pixels.
  void AddColumns(const Tensor& dx, const Tensor& bias, int64_t first, int64_t count,
                  bool accumulate) const {
    ForPlanes(shape_.in_channels, count, taps_ * pixels_, [&](int64_t channel, int64_t image) {
      float* const plane = PlaneOf(dx, first + image, channel);
      const float offset = bias.defined() ? bias.data<float>()[channel] : 0.0F;
      for (int64_t i = 0; i < shape_.in_pixels(); ++i) {
        plane[i] = accumulate ? plane[i] + offset : offset;
      }
      for (int64_t tap = 0; tap < taps_; ++tap) {
        AddTap(tap, ColumnsOf(channel, tap, image, count), plane);
      }
    });
  }

  void AddTap(int64_t tap, const float* values, float* plane) const {
    const auto [rows, columns] = ReachesOf(tap);
    const int64_t stride = shape_.width.stride, n = columns.end - columns.begin;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t source = rows.source + (row - rows.begin) * shape_.height.stride;
      float* const to = plane + source * shape_.width.in + columns.source;
      const float* const from = values + row * shape_.width.out + columns.begin;
      if (stride == 1) {
        for (int64_t i = 0; i < n; ++i) to[i] += from[i];
      } else {
        for (int64_t i = 0; i < n; ++i) to[i * stride] += from[i];
      }
    }
  }

  // rows[output channel, image and output pixel] = dy.
  void FillRows(const Tensor& dy, int64_t first, int64_t count) const {
    ForPlanes(shape_.out_channels, count, pixels_, [&](int64_t channel, int64_t image) {
      std::copy_n(PlaneOf(dy, first + image, channel), pixels_, RowOf(channel, image, count));
    });
  }

  // y (+)= bias + rows.
  void PlaceRows(const Tensor& y, const Tensor& bias, int64_t first, int64_t count,
                 bool accumulate) const {
    ForPlanes(shape_.out_channels, count, pixels_, [&](int64_t channel, int64_t image) {
      const float* const sums = RowOf(channel, image, count);
      float* const out = PlaneOf(y, first + image, channel);
      const float offset = bias.defined() ? bias.data<float>()[channel] : 0.0F;
      for (int64_t i = 0; i < pixels_; ++i) {
        out[i] = accumulate ? out[i] + sums[i] + offset : sums[i] + offset;
      }
    });
  }

  struct Reaches {
    Reach rows, columns;
  };
  Reaches ReachesOf(int64_t tap) const {
    return {ReachOf(shape_.height, tap / shape_.width.kernel),
            ReachOf(shape_.width, tap % shape_.width.kernel)};
  }

  static float* PlaneOf(const Tensor& tensor, int64_t image, int64_t channel) {
    return tensor.data<float>() + (image * tensor.dim(1) + channel) * tensor.dim(2) * tensor.dim(3);
  }
  float* ColumnsOf(int64_t channel, int64_t tap, int64_t image, int64_t count) const {
    return columns_.data<float>() + ((channel * taps_ + tap) * count + image) * pixels_;
  }
  float* RowOf(int64_t channel, int64_t image, int64_t count) const {
    return rows_.data<float>() + (channel * count + image) * pixels_;
  }

  const ConvolutionShape& shape_;
  const int64_t taps_, depth_, pixels_;
  const int64_t images_;  // at once
  const Tensor columns_;  // [channel and tap, image and output pixel]
  const Tensor rows_;     // [output channel, image and output pixel]
};

}  // namespace

bool ConvolvesByProducts(const ConvolutionShape& shape, DType dtype) {
  return dtype == DType::kFloat32 && shape.groups == 1 && shape.in_channels >= kMinChannels &&
         shape.out_channels >= kMinChannels && shape.out_pixels() <= kMaxPixels;
}

void ForwardByProducts(const ConvolutionShape& shape, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& y, bool accumulate) {
  Products(shape).Forward(x, weight, bias, y, accumulate);
}

void BackwardDataByProducts(const ConvolutionShape& shape, const Tensor& dy, const Tensor& weight,
                            const Tensor& bias, const Tensor& dx, bool accumulate) {
  Products(shape).BackwardData(dy, weight, bias, dx, accumulate);
}

void BackwardWeightByProducts(const ConvolutionShape& shape, const Tensor& x, const Tensor& dy,
                              const Tensor& dw, bool accumulate) {
  Products(shape).BackwardWeight(x, dy, dw, accumulate);
}

}  // namespace ops::cpu
