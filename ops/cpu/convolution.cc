#include "ops/cpu/convolution.h"

#include <algorithm>
#include <utility>

#include "ops/cpu/convolution_kernels.h"
#include "ops/cpu/convolution_plan.h"
#include "ops/cpu/convolution_products.h"
#include "ops/cpu/convolution_source.h"
#include "ops/cpu/thread_pool.h"

namespace ops::cpu {
namespace {

// Half of a small L2 cache, so that a block's planes stay there.
constexpr int64_t kBlockBytes = 256 << 10;
// Enough for the threads of a large machine to share a small batch.
constexpr int64_t kMinBlocks = 16;
// Multiplications that are worth a hand-over to another thread.
constexpr double kChunkMultiplications = 1e6;
constexpr double kMaxChunks = 64;
constexpr int64_t kPackedPerChunk = 65536;

// The channels of one group, and how far apart in the weight neighbouring ones are.
struct Side {
  int64_t channels, weight_stride;
};

// out[image, group, output] (+)= bias + the sum over the group's source channels of correlations.
class Correlation {
 public:
  Correlation(CorrelationPlan plan, int64_t groups, Side source, Side output, const Tensor& weight)
      : plan_(std::move(plan)),
        groups_(groups),
        source_(source),
        output_(output),
        weight_(weight),
        kernels_(ConvolutionKernelsOf(weight.dtype())),
        compute_type_(ComputeType(weight.dtype())),
        num_tiles_((output.channels + kernels_.max_outputs - 1) / kernels_.max_outputs),
        packed_(Tensor::Empty({weight.num_elements()}, {.dtype = compute_type_})) {
    Pack();
  }

  void Run(const Tensor& x, const Tensor& bias, const Tensor& out, bool accumulate) const {
    const int64_t items = plan_.num_blocks() * groups_;
    ParallelFor(items, ItemsPerChunk(items, out), [&](int64_t begin, int64_t end) {
      const Tensor planes = PlanesFor(plan_, source_.channels, compute_type_);
      const Tensor sums = Tensor::Empty(
          {plan_.column_phases(), kernels_.max_outputs, plan_.plane_elements() + kOverrun},
          {.dtype = compute_type_});
      for (int64_t item = begin; item < end; ++item) {
        const CorrelationBlock block = plan_.Block(item / groups_);
        const int64_t group = item % groups_;
        FillPlanes(plan_, block, x, group * source_.channels, source_.channels, planes);
        for (int64_t row_phase = 0; row_phase < plan_.row_phases(); ++row_phase) {
          for (int64_t tile = 0; tile < num_tiles_; ++tile) {
            Correlate(block, row_phase, group, tile, planes, sums);
            Place(block, row_phase, group, tile, sums, bias, out, accumulate);
          }
        }
      }
    });
  }

 private:
  int64_t ItemsPerChunk(int64_t items, const Tensor& out) const {
    const double per_output = static_cast<double>(weight_.num_elements()) /
                              static_cast<double>(output_.channels * groups_);
    const double work = static_cast<double>(out.num_elements()) * per_output;
    const double chunks = std::clamp(work / kChunkMultiplications, 1.0, kMaxChunks);
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(items) / chunks));
  }

  // Tiles are as equal as possible.
  int64_t FirstOutput(int64_t tile) const { return output_.channels * tile / num_tiles_; }
  int64_t NumOutputs(int64_t tile) const { return FirstOutput(tile + 1) - FirstOutput(tile); }

  // The weights in the order in which the kernel reads them: [group][phase][tile][source channel]
  // [tap][output of the tile].
  std::byte* PackedWeightsOf(const CorrelationPlan::Phase& phase, int64_t group,
                             int64_t tile) const {
    const auto taps = static_cast<int64_t>(phase.offsets.size());
    const int64_t element =
        group * weight_.num_elements() / groups_ +
        source_.channels * (output_.channels * phase.first_tap + FirstOutput(tile) * taps);
    return packed_.raw_data() + element * SizeOf(compute_type_);
  }

  void Pack() const {
    const int64_t tiles = groups_ * num_tiles_;
    const int64_t per_tile = weight_.num_elements() / std::max<int64_t>(1, tiles);
    ParallelFor(tiles, 1 + kPackedPerChunk / (1 + per_tile), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        for (int64_t row = 0; row < plan_.row_phases(); ++row) {
          for (int64_t column = 0; column < plan_.column_phases(); ++column) {
            PackTile(plan_.PhaseAt(row, column), item / num_tiles_, item % num_tiles_);
          }
        }
      }
    });
  }

  void PackTile(const CorrelationPlan::Phase& phase, int64_t group, int64_t tile) const {
    const int64_t first =
        group * weight_.num_elements() / groups_ + FirstOutput(tile) * output_.weight_stride;
    kernels_.pack({.weight = weight_.raw_data() + first * SizeOf(weight_.dtype()),
                   .output_stride = output_.weight_stride,
                   .channel_stride = source_.weight_stride,
                   .outputs = NumOutputs(tile),
                   .channels = source_.channels,
                   .taps = static_cast<int64_t>(phase.offsets.size()),
                   .kernel_indices = phase.kernel_indices.data(),
                   .out = PackedWeightsOf(phase, group, tile)});
  }

  // All phases of columns of these rows: [phase][output][position].
  void Correlate(const CorrelationBlock& block, int64_t row_phase, int64_t group, int64_t tile,
                 const Tensor& planes, const Tensor& sums) const {
    for (int64_t column_phase = 0; column_phase < plan_.column_phases(); ++column_phase) {
      const CorrelationPlan::Phase phase = plan_.PhaseAt(row_phase, column_phase);
      kernels_.correlate({.source = planes.raw_data(),
                          .channels = source_.channels,
                          .channel_stride = plan_.channel_elements(),
                          .offsets = phase.offsets.data(),
                          .taps = static_cast<int64_t>(phase.offsets.size()),
                          .weights = PackedWeightsOf(phase, group, tile),
                          .outputs = NumOutputs(tile),
                          .positions = plan_.Positions(block),
                          .sums = sums.raw_data() +
                                  column_phase * sums.dim(1) * sums.dim(2) * SizeOf(compute_type_),
                          .sums_stride = sums.dim(2)});
    }
  }

  void Place(const CorrelationBlock& block, int64_t row_phase, int64_t group, int64_t tile,
             const Tensor& sums, const Tensor& bias, const Tensor& out, bool accumulate) const {
    const CorrelationAxis& height = plan_.height();
    const int64_t size = SizeOf(out.dtype());
    Placed placed = {
        .sums = nullptr,
        .pitch = plan_.pitch(),
        .phases = plan_.column_phases(),
        .phase_stride = sums.dim(1) * sums.dim(2),
        .rows = std::min(block.num_rows, height.PhaseExtent(row_phase) - block.first_row),
        .columns = out.dim(3),
        .bias = nullptr,
        .accumulate = accumulate,
        .out = nullptr,
        .row_stride = height.destination_stride * out.dim(3)};
    const int64_t row = block.first_row * height.destination_stride + row_phase;
    for (int64_t output = 0; output < NumOutputs(tile); ++output) {
      const int64_t channel = group * output_.channels + FirstOutput(tile) + output;
      if (bias.defined()) placed.bias = bias.raw_data() + channel * size;
      for (int64_t image = 0; image < block.num_images; ++image) {
        const int64_t matrix = (block.first_image + image) * out.dim(1) + channel;
        const int64_t sum = output * sums.dim(2) + image * plan_.image_elements();
        placed.sums = sums.raw_data() + sum * SizeOf(compute_type_);
        placed.out = out.raw_data() + (matrix * out.dim(2) + row) * out.dim(3) * size;
        kernels_.place(placed);
      }
    }
  }

  const CorrelationPlan plan_;
  const int64_t groups_;
  const Side source_, output_;
  const Tensor& weight_;
  const ConvolutionKernels& kernels_;
  const DType compute_type_;
  const int64_t num_tiles_;
  const Tensor packed_;
};

int64_t BlockElements(const Tensor& tensor) {
  return kBlockBytes / SizeOf(ComputeType(tensor.dtype()));
}

}  // namespace

void ConvolutionForward(const ConvolutionShape& shape, const Tensor& x, const Tensor& weight,
                        const Tensor& bias, const Tensor& y, bool accumulate) {
  if (y.num_elements() == 0) return;
  if (ConvolvesByProducts(shape, y.dtype())) {
    return ForwardByProducts(shape, x, weight, bias, y, accumulate);
  }
  const Side source = {shape.in_channels / shape.groups, shape.kernel_elements()};
  const Side output = {shape.out_channels / shape.groups,
                       source.channels * shape.kernel_elements()};
  CorrelationPlan plan(ForwardAxis(shape.height), ForwardAxis(shape.width), shape.batch,
                       source.channels, BlockElements(x), kMinBlocks);
  Correlation(std::move(plan), shape.groups, source, output, weight).Run(x, bias, y, accumulate);
}

void ConvolutionBackwardData(const ConvolutionShape& shape, const Tensor& dy, const Tensor& weight,
                             const Tensor& bias, const Tensor& dx, bool accumulate) {
  if (dx.num_elements() == 0) return;
  if (ConvolvesByProducts(shape, dx.dtype())) {
    return BackwardDataByProducts(shape, dy, weight, bias, dx, accumulate);
  }
  const Side output = {shape.in_channels / shape.groups, shape.kernel_elements()};
  const Side source = {shape.out_channels / shape.groups,
                       output.channels * shape.kernel_elements()};
  CorrelationPlan plan(BackwardDataAxis(shape.height), BackwardDataAxis(shape.width), shape.batch,
                       source.channels, BlockElements(dy), kMinBlocks);
  Correlation(std::move(plan), shape.groups, source, output, weight).Run(dy, bias, dx, accumulate);
}

}  // namespace ops::cpu
