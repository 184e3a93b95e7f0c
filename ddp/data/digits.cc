#include "ddp/data/digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ddp/data/digit_glyphs.h"
#include "ddp/data/pixels.h"
#include "ops/tensor/random.h"

namespace ddp {
namespace {

using ops::Generator;
using ops::Tensor;

constexpr int kSide = DrawnDigits::kSide;
constexpr int kPixels = kSide * kSide;

// Each example draws from a stream of its own.
constexpr uint64_t kTrainStream = uint64_t{0x64726177} << 32;  // "draw"
constexpr uint64_t kTestStream = kTrainStream | uint64_t{1} << 63;

float Between(Generator& generator, double low, double high) {
  return static_cast<float>(low + (high - low) * generator.Uniform());
}

// How one digit is written: where the hand puts each point of a glyph.
class Hand {
 public:
  explicit Hand(Generator& generator) {
    const float turn = Between(generator, -0.22, 0.22), slant = Between(generator, -0.15, 0.5);
    const float height = Between(generator, 6.5, 10),
                width = height * Between(generator, 0.7, 1.25);
    const float c = std::cos(turn), s = std::sin(turn);
    // Scale, then slant (upwards is to the right), then turn.
    matrix_ = {c * width, (-slant * c - s) * height, s * width, (-slant * s + c) * height};
    const float reach_x = 13 - 0.75f * width, reach_y = 13 - height;
    shift_ = {Between(generator, -1, 1) * std::min(2.5f, std::max(reach_x, 0.0f)),
              Between(generator, -1, 1) * std::min(2.5f, std::max(reach_y, 0.0f))};
    for (Wave& wave : waves_) {
      wave.direction = {Between(generator, -2.2, 2.2), Between(generator, -2.2, 2.2)};
      wave.phase = Between(generator, 0, 2 * std::numbers::pi);
      wave.amplitude = {Between(generator, -0.12, 0.12), Between(generator, -0.12, 0.12)};
    }
  }

  Point Put(Point p) const {
    Point bent = p;
    for (const Wave& wave : waves_) {
      const float push = std::sin(wave.direction.x * p.x + wave.direction.y * p.y + wave.phase);
      bent.x += wave.amplitude.x * push;
      bent.y += wave.amplitude.y * push;
    }
    constexpr float kCentre = kSide / 2.0f;
    return {matrix_[0] * bent.x + matrix_[1] * bent.y + shift_.x + kCentre,
            matrix_[2] * bent.x + matrix_[3] * bent.y + shift_.y + kCentre};
  }

 private:
  // Long waves bend the digit as a whole: strokes that touch still do.
  struct Wave {
    Point direction;
    float phase;
    Point amplitude;
  };
  std::array<float, 4> matrix_;
  Point shift_;
  std::array<Wave, 3> waves_;
};

// For each pixel the squared distance of its centre from the ink's middle line, as far as the pen
// reaches.
class Canvas {
 public:
  explicit Canvas(float reach) : reach_(reach) { distances_.fill(reach * reach); }

  void DrawLine(Point a, Point b) {
    const float dx = b.x - a.x, dy = b.y - a.y;
    const float inverse_length = 1 / std::max(dx * dx + dy * dy, 1e-6f);
    const int top = First(std::min(a.y, b.y)), bottom = Last(std::max(a.y, b.y));
    const int left = First(std::min(a.x, b.x)), right = Last(std::max(a.x, b.x));
    for (int y = top; y <= bottom; ++y) {
      for (int x = left; x <= right; ++x) {
        const float px = x + 0.5f - a.x, py = y + 0.5f - a.y;
        const float along = std::clamp((px * dx + py * dy) * inverse_length, 0.0f, 1.0f);
        const float ex = px - along * dx, ey = py - along * dy;
        float& distance = distances_[y * kSide + x];
        distance = std::min(distance, ex * ex + ey * ey);
      }
    }
  }

  // A Catmull-Rom curve, which goes through its points.
  void DrawCurve(std::span<const Point> points) {
    constexpr int kLinesPerPoint = 5;
    Point from = points[0];
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      const Point p0 = points[i == 0 ? 0 : i - 1], p1 = points[i], p2 = points[i + 1],
                  p3 = points[std::min(i + 2, points.size() - 1)];
      for (int line = 1; line <= kLinesPerPoint; ++line) {
        const float t = static_cast<float>(line) / kLinesPerPoint;
        const Point to = {CatmullRom(p0.x, p1.x, p2.x, p3.x, t),
                          CatmullRom(p0.y, p1.y, p2.y, p3.y, t)};
        DrawLine(from, to);
        from = to;
      }
    }
  }

  float distance(int pixel) const { return std::sqrt(distances_[pixel]); }

 private:
  static float CatmullRom(float p0, float p1, float p2, float p3, float t) {
    return 0.5f * (2 * p1 + (p2 - p0) * t + (2 * p0 - 5 * p1 + 4 * p2 - p3) * t * t +
                   (3 * (p1 - p2) + p3 - p0) * t * t * t);
  }
  int First(float low) const { return std::max(static_cast<int>(low - reach_), 0); }
  int Last(float high) const { return std::min(static_cast<int>(high + reach_), kSide - 1); }

  float reach_;
  std::array<float, kPixels> distances_;
};

// Ink that fades at the pen's edge, and noise.
std::array<uint8_t, kPixels> Develop(const Canvas& canvas, float pen_radius, Generator& generator) {
  const float ink = Between(generator, 170, 250), noise = Between(generator, 0, 0.3);
  std::array<uint8_t, kPixels> pixels;
  for (int i = 0; i < kPixels; i += 4) {
    const uint32_t random = generator.NextUint32();
    for (int j = 0; j < 4; ++j) {
      const float blackness = std::clamp(pen_radius + 0.5f - canvas.distance(i + j), 0.0f, 1.0f);
      const float grain = noise * (static_cast<int>(random >> 8 * j & 255) - 128);
      pixels[i + j] = static_cast<uint8_t>(std::clamp(ink * blackness + grain, 0.0f, 255.0f));
    }
  }
  return pixels;
}

// Writes normalised pixels to `input` and returns the class.
int64_t Draw(const DrawnDigits::Options& options, int64_t index, float* input) {
  const bool train = options.split == DrawnDigits::Split::kTrain;
  Generator generator(options.seed, (train ? kTrainStream : kTestStream) + index);
  const int digit = static_cast<int>(generator.Below(DrawnDigits::kNumClasses));
  const std::span<const Glyph> variants = GlyphsOf(digit);
  const Glyph& glyph = variants[generator.Below(variants.size())];
  const Hand hand(generator);
  const float pen_radius = Between(generator, 0.6, 1.7);

  Canvas canvas(/*reach=*/pen_radius + 0.5f);
  std::vector<Point> put;
  for (const Stroke& stroke : glyph) {
    put.clear();
    for (Point point : stroke) put.push_back(hand.Put(point));
    canvas.DrawCurve(put);
  }
  NormalizePixels(Develop(canvas, pen_radius, generator), input);
  return digit;
}

}  // namespace

Example DrawnDigits::Get(int64_t index) const {
  const Batch batch = GetBatch({&index, 1});
  return {batch.inputs.View({1, kSide, kSide}), batch.targets.View({})};
}

Batch DrawnDigits::GetBatch(std::span<const int64_t> indices) const {
  CheckIndices(indices);
  const int64_t count = static_cast<int64_t>(indices.size());
  const Batch batch = {Tensor::Empty({count, 1, kSide, kSide}),
                       Tensor::Empty({count}, {.dtype = ops::DType::kInt64})};
  float* input = batch.inputs.data<float>();
  int64_t* target = batch.targets.data<int64_t>();
  for (int64_t index : indices) {
    *target++ = Draw(options_, index, input);
    input += kPixels;
  }
  return batch;
}

}  // namespace ddp
