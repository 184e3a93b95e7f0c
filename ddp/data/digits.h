// DrawnDigits: digits that look handwritten, drawn by the program itself, so that a first training
// run needs no files.
//
//   ddp::DrawnDigits train({.size = 20'000, .split = ddp::DrawnDigits::Split::kTrain});
//
// Each digit is written in one of two or three ways, by a hand that slants, turns, scales, bends
// and shifts it, with pens of different width, on paper that isn't quite white. Example i depends
// on (seed, split, i) alone, so it is the same on every rank. As with MNIST, an input is float32[1,
// 28, 28], normalised (pixels.h), and a target an int64 scalar from 0 to 9.
//
// Nothing is kept: an example is drawn when it is asked for.
#pragma once

#include <cstdint>
#include <span>

#include "ddp/data/dataset.h"

namespace ddp {

class DrawnDigits : public Dataset {
 public:
  static constexpr int64_t kSide = 28;
  static constexpr int64_t kNumClasses = 10;

  enum class Split { kTrain, kTest };
  struct Options {
    int64_t size = 20'000;
    Split split = Split::kTrain;
    uint64_t seed = 0;
  };

  explicit DrawnDigits(const Options& options) : options_(options) {}

  int64_t size() const override { return options_.size; }
  Example Get(int64_t index) const override;
  Batch GetBatch(std::span<const int64_t> indices) const override;

 private:
  Options options_;
};

}  // namespace ddp
