#include "ops/cpu/flat_range.h"

#include <algorithm>

namespace ops::cpu {
namespace {

// Whether `next` goes on where `last` ends, in memory and in steps.
bool Continues(const FlatSegment& last, const FlatSegment& next, int64_t element_bytes) {
  const int64_t bytes = last.count * element_bytes;
  return next.parameter == last.parameter + bytes &&
         next.state_begin == last.state_begin + last.count && next.step == last.step &&
         (last.gradient == nullptr ? next.gradient == nullptr
                                   : next.gradient == last.gradient + bytes);
}

}  // namespace

void FlatRange::Add(const Tensor& parameter, const Tensor& gradient, int64_t state_begin,
                    int64_t step) {
  Append({
      .begin = num_elements(),
      .count = parameter.num_elements(),
      .parameter = parameter.raw_data(),
      .gradient = gradient.defined() ? gradient.raw_data() : nullptr,
      .state_begin = state_begin,
      .step = step,
  });
}

void FlatRange::AddRows(const Tensor& parameter, const Tensor& ids, const Tensor& rows,
                        int64_t state_begin, int64_t step) {
  const int64_t width = parameter.dim(1), row_bytes = width * SizeOf(dtype_);
  std::byte* gradient = rows.raw_data();
  for (const int64_t id : ids.elements<int64_t>()) {
    Append({
        .begin = num_elements(),
        .count = width,
        .parameter = parameter.raw_data() + id * row_bytes,
        .gradient = gradient,
        .state_begin = state_begin + id * width,
        .step = step,
    });
    gradient += row_bytes;
  }
}

void FlatRange::Append(const FlatSegment& next) {
  if (next.count == 0) return;
  if (!segments_.empty() && Continues(segments_.back(), next, SizeOf(dtype_))) {
    segments_.back().count += next.count;
  } else {
    segments_.push_back(next);
  }
}

void FlatRange::ForEachPart(
    int64_t begin, int64_t end,
    absl::FunctionRef<void(const FlatSegment&, int64_t from, int64_t to)> body) const {
  const auto after = std::ranges::upper_bound(segments_, begin, {}, &FlatSegment::begin);
  for (auto segment = after - 1; segment != segments_.end() && segment->begin < end; ++segment) {
    body(*segment, std::max<int64_t>(begin - segment->begin, 0),
         std::min(end - segment->begin, segment->count));
  }
}

}  // namespace ops::cpu
