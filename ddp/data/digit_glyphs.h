// The shapes of the ten digits as pen strokes, in the ways that people write them.
#pragma once

#include <span>
#include <vector>

namespace ddp {

struct Point {
  float x, y;  // y grows downwards; a digit fills about [-0.6, 0.6] x [-1, 1]
};

// A smooth curve through its points. Corners are where one stroke ends and the next begins.
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// The variants of `digit`, from 0 to 9.
std::span<const Glyph> GlyphsOf(int digit);

}  // namespace ddp
