// How a convolution of any stride, padding and dilation, or its gradient with respect to x, becomes
// correlations of unit stride, so that kernels work on vectors of neighbouring positions.
//
// The source (x, or dy for the gradient) is copied into planes with zeros around them. Where the
// source is strided, each residue of its indices modulo the stride that some tap of the kernel
// reads is a plane of its own; where the destination is strided (the gradient of a strided
// convolution is), its pixels of one residue are a phase, with its own few taps. Either way
//
//   destination[phase](j) = sum over the phase's taps of weight[tap] plane[tap](j + shift[tap]).
//
// Rows of a plane follow each other without a gap, `pitch` positions each, so that j runs over all
// rows at once: the few positions beyond the end of each destination row are calculated in vain.
// The work is cut into blocks, bands of rows of one image or several small images, whose planes fit
// into a core's cache.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "ops/cpu/convolution_shape.h"

namespace ops::cpu {

// One axis of a correlation.
struct CorrelationAxis {
  struct Tap {
    int64_t kernel_index;
    int64_t plane;  // index into source_residues
    int64_t phase;  // the residue of the destination
    int64_t shift;  // at least 0
  };
  int64_t source_extent, source_stride;
  int64_t destination_extent, destination_stride;
  absl::InlinedVector<int64_t, 4> source_residues;
  absl::InlinedVector<Tap, 8> taps;
  int64_t first_index;  // plane element 0 is source element first_index * stride + residue
  int64_t max_shift;

  int64_t num_planes() const { return static_cast<int64_t>(source_residues.size()); }
  // How many destination elements have this residue.
  int64_t PhaseExtent(int64_t phase) const {
    return (destination_extent - phase + destination_stride - 1) / destination_stride;
  }
};

CorrelationAxis ForwardAxis(const ConvolutionAxis& axis);
CorrelationAxis BackwardDataAxis(const ConvolutionAxis& axis);

// Images [first_image, + num_images), of them rows [first_row, + num_rows) of each phase.
struct CorrelationBlock {
  int64_t first_image, num_images;
  int64_t first_row, num_rows;
};

class CorrelationPlan {
 public:
  // Blocks of `batch` images whose planes take about `block_elements` for `channels` channels; at
  // least `min_blocks` where that doesn't make them tiny.
  CorrelationPlan(CorrelationAxis height, CorrelationAxis width, int64_t batch, int64_t channels,
                  int64_t block_elements, int64_t min_blocks);

  int64_t num_blocks() const { return image_blocks_ * bands_; }
  CorrelationBlock Block(int64_t index) const;

  // The planes of one channel of a block: [plane of height][plane of width][image][row][pitch].
  int64_t pitch() const { return pitch_; }
  int64_t image_elements() const { return plane_rows_ * pitch_; }
  int64_t plane_elements() const { return images_per_block_ * image_elements(); }
  int64_t channel_elements() const {
    return height_.num_planes() * width_.num_planes() * plane_elements();
  }

  // Positions from the first to the last that a block's destination has.
  int64_t Positions(const CorrelationBlock& block) const {
    return (block.num_images - 1) * image_elements() + (block.num_rows - 1) * pitch_ +
           width_.PhaseExtent(0);
  }

  // A phase of the destination's rows and columns, and its taps: where they read from, relative to
  // the position they write, and which element of the kernel [kh, kw] they multiply with.
  struct Phase {
    std::span<const int64_t> offsets, kernel_indices;
    int64_t first_tap;  // counts the taps of the phases before
  };
  int64_t row_phases() const { return height_.destination_stride; }
  int64_t column_phases() const { return width_.destination_stride; }
  Phase PhaseAt(int64_t row_phase, int64_t column_phase) const;

  const CorrelationAxis& height() const { return height_; }
  const CorrelationAxis& width() const { return width_; }

 private:
  void PlanBlocks(int64_t channels, int64_t block_elements, int64_t min_blocks);
  void ListTaps();
  void ListTapsOf(int64_t row_phase, int64_t column_phase);

  CorrelationAxis height_, width_;
  int64_t batch_;
  int64_t rows_, pitch_;  // rows_: of the largest phase
  int64_t rows_per_block_ = 0, images_per_block_ = 1;
  int64_t plane_rows_ = 0, bands_ = 0, image_blocks_ = 0;
  absl::InlinedVector<int64_t, 64> offsets_, kernel_indices_;
  absl::InlinedVector<int64_t, 16> phase_ends_;
};

}  // namespace ops::cpu
