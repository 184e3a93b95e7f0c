#include "ops/cpu/convolution_weight_gradient.h"

#include <algorithm>

#include "ops/cpu/convolution_plan.h"
#include "ops/cpu/convolution_products.h"
#include "ops/cpu/convolution_source.h"
#include "ops/cpu/convolution_weight_gradient_kernels.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

// The part of x that meets one turned part of dy.
constexpr int64_t kBlockBytes = 64 << 10;
constexpr int64_t kMaxChannels = 32;
// Enough for the threads of a large machine. Each part of the batch has sums of its own, which
// are bounded too.
constexpr int64_t kWantedItems = 16;
constexpr int64_t kMaxSumElements = 1 << 20;
// Multiplications that are worth a hand-over to another thread.
constexpr double kItemMultiplications = 5e5;

const ConvolutionWeightGradientKernels& KernelsOf(DType dtype) {
  const auto& kernels =
      ForIsa(baseline::kConvolutionWeightGradientKernels, avx2::kConvolutionWeightGradientKernels,
             avx512::kConvolutionWeightGradientKernels);
  return kernels[static_cast<int>(dtype)];
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The work is cut into items: a part of the batch's blocks, a group, and some of its channels.
class WeightGradient {
 public:
  WeightGradient(const ConvolutionShape& shape, const Tensor& x, const Tensor& dy)
      : shape_(shape),
        x_(x),
        dy_(dy),
        kernels_(KernelsOf(x.dtype())),
        compute_type_(ComputeType(x.dtype())),
        channels_(shape.in_channels / shape.groups),
        outputs_(shape.out_channels / shape.groups),
        lanes_(CeilDivide(outputs_, kernels_.vector) * kernels_.vector),
        slices_(CeilDivide(channels_, kMaxChannels)),
        plan_(ForwardAxis(shape.height), ForwardAxis(shape.width), shape.batch,
              CeilDivide(channels_, slices_), kBlockBytes / SizeOf(compute_type_), kWantedItems),
        parts_(NumParts()),
        sums_(Tensor::Zeros({parts_, shape.groups * channels_ * shape.kernel_elements() * lanes_},
                            {.dtype = compute_type_})) {}

  void Run() const {
    ParallelFor(parts_ * shape_.groups * slices_, 1, [&](int64_t begin, int64_t end) {
      const Tensor planes = PlanesFor(plan_, CeilDivide(channels_, slices_), compute_type_);
      const Tensor gradient =
          Tensor::Empty({plan_.Block(0).num_rows * shape_.width.out, 2 * kernels_.vector},
                        {.dtype = compute_type_});
      for (int64_t item = begin; item < end; ++item) {
        RunItem(item / (shape_.groups * slices_), item / slices_ % shape_.groups, item % slices_,
                planes, gradient);
      }
    });
  }

  // dw (+)= the parts' sums.
  void Finish(const Tensor& dw, bool accumulate) const {
    if (parts_ > 1) {
      const int64_t n = sums_.dim(1);
      ParallelFor(n, 65536, [&](int64_t begin, int64_t end) {
        kernels_.add_parts(sums_.raw_data() + begin * SizeOf(compute_type_), parts_, n,
                           end - begin);
      });
    }
    const int64_t count = channels_ * shape_.kernel_elements();
    ParallelFor(shape_.out_channels, 1 + 65536 / (1 + count), [&](int64_t begin, int64_t end) {
      for (int64_t output = begin; output < end; ++output) {
        const int64_t lane = output % outputs_;
        const int64_t first = lane / (2 * kernels_.vector) * 2 * kernels_.vector;
        kernels_.finish({.sums = SumsOf(0, output / outputs_, first, 0) +
                                 (lane - first) * SizeOf(compute_type_),
                         .lanes = std::min(lanes_ - first, 2 * kernels_.vector),
                         .lanes_of_sum = outputs_ == 1 ? lanes_ : 1,
                         .count = count,
                         .accumulate = accumulate,
                         .out = dw.raw_data() + output * count * SizeOf(dw.dtype())});
      }
    });
  }

 private:
  int64_t NumParts() const {
    const int64_t items = shape_.groups * slices_;
    const double outputs =
        static_cast<double>(shape_.batch * shape_.out_channels * shape_.out_pixels());
    const double work = outputs * static_cast<double>(channels_ * shape_.kernel_elements());
    const auto worth = static_cast<int64_t>(std::min(work / kItemMultiplications, 1e6));
    const int64_t sum_elements = shape_.groups * channels_ * shape_.kernel_elements() * lanes_;
    const int64_t most = std::min(
        {worth, kWantedItems, plan_.num_blocks() * items, kMaxSumElements / sum_elements * items});
    return std::max<int64_t>(1, most / items);
  }

  // Sums of a part: [group][tile of outputs][channel][tap][lane of the tile].
  std::byte* SumsOf(int64_t part, int64_t group, int64_t first_lane, int64_t channel) const {
    const int64_t taps = shape_.kernel_elements();
    const int64_t tile_lanes = std::min(lanes_ - first_lane, 2 * kernels_.vector);
    const int64_t element = (part * shape_.groups + group) * channels_ * taps * lanes_ +
                            channels_ * taps * first_lane + channel * taps * tile_lanes;
    return sums_.raw_data() + element * SizeOf(compute_type_);
  }

  void RunItem(int64_t part, int64_t group, int64_t slice, const Tensor& planes,
               const Tensor& gradient) const {
    const int64_t begin = channels_ * slice / slices_, end = channels_ * (slice + 1) / slices_;
    const int64_t first = plan_.num_blocks() * part / parts_;
    const int64_t last = plan_.num_blocks() * (part + 1) / parts_;
    for (int64_t index = first; index < last; ++index) {
      const CorrelationBlock block = plan_.Block(index);
      FillPlanes(plan_, block, x_, group * channels_ + begin, end - begin, planes);
      for (int64_t image = 0; image < block.num_images; ++image) {
        for (int64_t lane = 0; lane < lanes_; lane += 2 * kernels_.vector) {
          const int64_t lanes = std::min(lanes_ - lane, 2 * kernels_.vector);
          Turn(block, image, group, lane, lanes, gradient);
          kernels_.add(
              {.gradient = gradient.raw_data(),
               .outputs = outputs_,
               .lanes = lanes,
               .rows = block.num_rows,
               .columns = shape_.width.out,
               .source = planes.raw_data() + image * plan_.image_elements() * SizeOf(compute_type_),
               .channels = end - begin,
               .channel_stride = plan_.channel_elements(),
               .pitch = plan_.pitch(),
               .offsets = plan_.PhaseAt(0, 0).offsets.data(),
               .taps = shape_.kernel_elements(),
               .sums = SumsOf(part, group, lane, begin)});
        }
      }
    }
  }

  // Brings an image's gradient into the order in which kernels_.add reads it.
  void Turn(const CorrelationBlock& block, int64_t image, int64_t group, int64_t lane,
            int64_t lanes, const Tensor& gradient) const {
    const int64_t channel =
        (block.first_image + image) * shape_.out_channels + group * outputs_ + lane;
    const int64_t element = channel * shape_.out_pixels() + block.first_row * shape_.width.out;
    if (outputs_ == 1) {
      const int64_t rows = block.num_rows, columns = shape_.width.out;
      return ConvolutionKernelsOf(dy_.dtype())
          .pad({.from = dy_.raw_data() + element * SizeOf(dy_.dtype()),
                .row_stride = columns,
                .column_stride = 1,
                .first_row = 0,
                .end_row = rows,
                .first_column = 0,
                .end_column = columns,
                .rows = rows,
                .columns = CeilDivide(columns, kernels_.vector) * kernels_.vector,
                .out = gradient.raw_data()});
    }
    kernels_.turn({.gradient = dy_.raw_data() + element * SizeOf(dy_.dtype()),
                   .output_stride = shape_.out_pixels(),
                   .outputs = std::min(outputs_ - lane, lanes),
                   .lanes = lanes,
                   .pixels = block.num_rows * shape_.width.out,
                   .out = gradient.raw_data()});
  }

  const ConvolutionShape& shape_;
  const Tensor &x_, &dy_;
  const ConvolutionWeightGradientKernels& kernels_;
  const DType compute_type_;
  const int64_t channels_, outputs_;  // of a group
  const int64_t lanes_;               // outputs_, filled up to whole vectors
  const int64_t slices_;              // of a group's channels
  const CorrelationPlan plan_;
  const int64_t parts_;
  const Tensor sums_;
};

}  // namespace

void ConvolutionBackwardWeight(const ConvolutionShape& shape, const Tensor& x, const Tensor& dy,
                               const Tensor& dw, bool accumulate) {
  if (dw.num_elements() == 0) return;
  if (dy.num_elements() == 0) {
    if (!accumulate) dw.FillZero();
    return;
  }
  if (ConvolvesByProducts(shape, dw.dtype())) {
    return BackwardWeightByProducts(shape, x, dy, dw, accumulate);
  }
  const WeightGradient gradient(shape, x, dy);
  gradient.Run();
  gradient.Finish(dw, accumulate);
}

}  // namespace ops::cpu
