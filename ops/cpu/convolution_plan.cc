#include "ops/cpu/convolution_plan.h"

#include <algorithm>
#include <utility>

namespace ops::cpu {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }
int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Taps came with shifts of any sign.
void MoveShiftsToZero(CorrelationAxis& axis) {
  const auto [least, most] = std::ranges::minmax(axis.taps, {}, &CorrelationAxis::Tap::shift);
  axis.first_index = least.shift;
  axis.max_shift = most.shift - least.shift;
  for (CorrelationAxis::Tap& tap : axis.taps) tap.shift -= axis.first_index;
}

}  // namespace

// x's index o stride + k dilation - padding is (o + shift) stride + residue.
CorrelationAxis ForwardAxis(const ConvolutionAxis& axis) {
  CorrelationAxis plan = {.source_extent = axis.in,
                          .source_stride = axis.stride,
                          .destination_extent = axis.out,
                          .destination_stride = 1,
                          .source_residues = {},
                          .taps = {},
                          .first_index = 0,
                          .max_shift = 0};
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t index = k * axis.dilation - axis.padding;
    const int64_t shift = FloorDivide(index, axis.stride);
    const int64_t residue = index - shift * axis.stride;
    const auto known = std::ranges::find(plan.source_residues, residue);
    const int64_t plane = known - plan.source_residues.begin();
    if (known == plan.source_residues.end()) plan.source_residues.push_back(residue);
    plan.taps.push_back({k, plane, 0, shift});
  }
  MoveShiftsToZero(plan);
  return plan;
}

// x's index j stride + phase gets weight[k] dy[o] from the o with o stride + k dilation - padding
// = j stride + phase: o = j + shift, for the k where that's an integer.
CorrelationAxis BackwardDataAxis(const ConvolutionAxis& axis) {
  CorrelationAxis plan = {.source_extent = axis.out,
                          .source_stride = 1,
                          .destination_extent = axis.in,
                          .destination_stride = axis.stride,
                          .source_residues = {0},
                          .taps = {},
                          .first_index = 0,
                          .max_shift = 0};
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t index = k * axis.dilation - axis.padding;
    const int64_t shift = FloorDivide(index, axis.stride);
    plan.taps.push_back({k, 0, index - shift * axis.stride, -shift});
  }
  MoveShiftsToZero(plan);
  return plan;
}

CorrelationPlan::CorrelationPlan(CorrelationAxis height, CorrelationAxis width, int64_t batch,
                                 int64_t channels, int64_t block_elements, int64_t min_blocks)
    : height_(std::move(height)),
      width_(std::move(width)),
      batch_(batch),
      rows_(height_.PhaseExtent(0)),
      pitch_(width_.PhaseExtent(0) + width_.max_shift) {
  PlanBlocks(channels, block_elements, min_blocks);
  ListTaps();
}

void CorrelationPlan::PlanBlocks(int64_t channels, int64_t block_elements, int64_t min_blocks) {
  // Some vectors, so that neither the ends of the last vectors nor the rows that two bands both
  // read weigh much.
  constexpr int64_t kMinPositions = 48, kMinRows = 4;
  const int64_t elements_per_row =
      std::max<int64_t>(1, channels) * height_.num_planes() * width_.num_planes() * pitch_;
  const int64_t fitting = block_elements / elements_per_row - height_.max_shift;
  const int64_t wanted_bands = CeilDivide(min_blocks, std::max<int64_t>(1, batch_));
  const int64_t rows = std::min(fitting, CeilDivide(rows_, wanted_bands));
  const int64_t least = std::max(kMinRows, CeilDivide(kMinPositions, pitch_));
  bands_ = CeilDivide(rows_, std::clamp(rows, std::min(least, rows_), rows_));
  rows_per_block_ = CeilDivide(rows_, bands_);
  plane_rows_ = rows_per_block_ + height_.max_shift;
  if (bands_ == 1) {
    const int64_t most = std::max<int64_t>(1, block_elements / (elements_per_row * plane_rows_));
    images_per_block_ = std::min(CeilDivide(kMinPositions, plane_rows_ * pitch_), most);
  }
  image_blocks_ = CeilDivide(batch_, images_per_block_);
}

void CorrelationPlan::ListTaps() {
  for (int64_t row = 0; row < row_phases(); ++row) {
    for (int64_t column = 0; column < column_phases(); ++column) {
      ListTapsOf(row, column);
      phase_ends_.push_back(static_cast<int64_t>(offsets_.size()));
    }
  }
}

void CorrelationPlan::ListTapsOf(int64_t row_phase, int64_t column_phase) {
  const auto kernel_width = static_cast<int64_t>(width_.taps.size());
  for (const CorrelationAxis::Tap& row : height_.taps) {
    if (row.phase != row_phase) continue;
    for (const CorrelationAxis::Tap& column : width_.taps) {
      if (column.phase != column_phase) continue;
      const int64_t plane = row.plane * width_.num_planes() + column.plane;
      offsets_.push_back(plane * plane_elements() + row.shift * pitch_ + column.shift);
      kernel_indices_.push_back(row.kernel_index * kernel_width + column.kernel_index);
    }
  }
}

CorrelationBlock CorrelationPlan::Block(int64_t index) const {
  const int64_t first_image = index / bands_ * images_per_block_;
  const int64_t first_row = index % bands_ * rows_per_block_;
  return {first_image, std::min(images_per_block_, batch_ - first_image), first_row,
          std::min(rows_per_block_, rows_ - first_row)};
}

CorrelationPlan::Phase CorrelationPlan::PhaseAt(int64_t row_phase, int64_t column_phase) const {
  const int64_t index = row_phase * column_phases() + column_phase;
  const int64_t begin = index == 0 ? 0 : phase_ends_[index - 1];
  const auto count = static_cast<size_t>(phase_ends_[index] - begin);
  return {.offsets = {offsets_.data() + begin, count},
          .kernel_indices = {kernel_indices_.data() + begin, count},
          .first_tap = begin};
}

}  // namespace ops::cpu
