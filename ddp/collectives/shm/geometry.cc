#include "ddp/collectives/shm/geometry.h"

#include <algorithm>
#include <numeric>

#include "ddp/collectives/shm/segment.h"

namespace ddp::shm {
namespace {

using Kind = OperationKind;

}  // namespace

bool Geometry::Gives(int from) const {
  const bool has_one_giver = call_.kind == Kind::kBroadcast || call_.kind == Kind::kScatter;
  return !has_one_giver || from == call_.root;
}

bool Geometry::Takes(int to) const {
  const bool has_one_taker = call_.kind == Kind::kReduce || call_.kind == Kind::kGather;
  return !has_one_taker || to == call_.root;
}

bool Geometry::reduces() const { return spreads_results() || call_.kind == Kind::kReduceScatter; }

bool Geometry::spreads_results() const {
  return call_.kind == Kind::kAllReduce || call_.kind == Kind::kReduce;
}

bool Geometry::gives_one_block() const {
  return call_.kind == Kind::kBroadcast || call_.kind == Kind::kAllGather ||
         call_.kind == Kind::kGather;
}

bool Geometry::is_private() const {
  return call_.kind == Kind::kAllToAll && !operation_.input_counts.empty();
}

int64_t Geometry::max_given_bytes() const {
  const bool counts_one_block =
      counts().empty() && (call_.kind == Kind::kScatter || call_.kind == Kind::kReduceScatter);
  return call_.num_elements * ops::SizeOf(call_.dtype) * (counts_one_block ? size_ : 1);
}

const Buffer& Geometry::input() const {
  return call_.kind == Kind::kBroadcast ? operation_.output : operation_.input;
}

Block Geometry::Given(int from, int to) const {
  switch (call_.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
      return Slice(to);
    case Kind::kAllToAll:
      return operation_.InputBlock(to, size_);
    case Kind::kScatter:
    case Kind::kReduceScatter:
      return SharedBlock(to);
    case Kind::kBroadcast:
      return {0, call_.num_elements};
    default:
      return {0, SharedBlock(from).num_elements};
  }
}

Block Geometry::Taken(int from) const {
  switch (call_.kind) {
    case Kind::kAllToAll:
      return operation_.OutputBlock(from, size_);
    case Kind::kAllGather:
    case Kind::kGather:
      return SharedBlock(from);
    default:
      return {0, operation_.output.num_elements};
  }
}

Block Geometry::Slice(int rank) const {
  const int64_t line = kCacheLine / ops::SizeOf(call_.dtype);
  const int64_t num_lines = (call_.num_elements + line - 1) / line;
  const int64_t begin = std::min(num_lines * rank / size_ * line, call_.num_elements);
  const int64_t end = std::min(num_lines * (rank + 1) / size_ * line, call_.num_elements);
  return {begin, end - begin};
}

int64_t Geometry::max_block() const {
  if (spreads_results()) return Slice(size_ - 1).num_elements;
  if (!counts().empty()) return *std::max_element(counts().begin(), counts().end());
  return call_.kind == Kind::kAllToAll ? call_.num_elements / size_ : call_.num_elements;
}

Block Geometry::SharedBlock(int rank) const {
  if (counts().empty()) return {rank * call_.num_elements, call_.num_elements};
  const int64_t begin = std::accumulate(counts().begin(), counts().begin() + rank, int64_t{0});
  return {begin, counts()[rank]};
}

const std::vector<int64_t>& Geometry::counts() const {
  return operation_.input_counts.empty() ? operation_.output_counts : operation_.input_counts;
}

}  // namespace ddp::shm
