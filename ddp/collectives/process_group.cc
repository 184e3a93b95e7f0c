#include "ddp/collectives/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

namespace ddp {

using Kind = OperationKind;
using WorkPtr = ProcessGroup::WorkPtr;

namespace {

// What a rank has that takes no part on this side of an operation.
Buffer NothingLike(const Buffer& buffer) { return {nullptr, 0, buffer.dtype, buffer.device}; }

}  // namespace

WorkPtr ProcessGroup::AllReduce(const Buffer& input, const Buffer& output,
                                const Reduction& reduction, Timeout timeout) {
  return Issue({.kind = Kind::kAllReduce, .input = input, .output = output, .reduction = reduction},
               timeout);
}

WorkPtr ProcessGroup::Reduce(const Buffer& input, const Buffer& output, const Reduction& reduction,
                             int root, Timeout timeout) {
  return Issue({.kind = Kind::kReduce,
                .input = input,
                .output = rank_ == root ? output : NothingLike(input),
                .reduction = reduction,
                .root = root},
               timeout);
}

WorkPtr ProcessGroup::ReduceScatter(const Buffer& input, const Buffer& output,
                                    const Reduction& reduction, Timeout timeout) {
  return ReduceScatter(input, output, reduction, Counts(), timeout);
}

WorkPtr ProcessGroup::ReduceScatter(const Buffer& input, const Buffer& output,
                                    const Reduction& reduction, const Counts& counts,
                                    Timeout timeout) {
  return Issue({.kind = Kind::kReduceScatter,
                .input = input,
                .output = output,
                .reduction = reduction,
                .input_counts = counts},
               timeout);
}

WorkPtr ProcessGroup::Broadcast(const Buffer& buffer, int root, Timeout timeout) {
  return Issue(
      {.kind = Kind::kBroadcast, .input = NothingLike(buffer), .output = buffer, .root = root},
      timeout);
}

WorkPtr ProcessGroup::AllGather(const Buffer& input, const Buffer& output, Timeout timeout) {
  return AllGather(input, output, Counts(), timeout);
}

WorkPtr ProcessGroup::AllGather(const Buffer& input, const Buffer& output, const Counts& counts,
                                Timeout timeout) {
  return Issue(
      {.kind = Kind::kAllGather, .input = input, .output = output, .output_counts = counts},
      timeout);
}

WorkPtr ProcessGroup::Gather(const Buffer& input, const Buffer& output, int root, Timeout timeout) {
  return Gather(input, output, root, Counts(), timeout);
}

WorkPtr ProcessGroup::Gather(const Buffer& input, const Buffer& output, int root,
                             const Counts& counts, Timeout timeout) {
  return Issue({.kind = Kind::kGather,
                .input = input,
                .output = rank_ == root ? output : NothingLike(input),
                .root = root,
                .output_counts = counts},
               timeout);
}

WorkPtr ProcessGroup::Scatter(const Buffer& input, const Buffer& output, int root,
                              Timeout timeout) {
  return Scatter(input, output, root, Counts(), timeout);
}

WorkPtr ProcessGroup::Scatter(const Buffer& input, const Buffer& output, int root,
                              const Counts& counts, Timeout timeout) {
  return Issue({.kind = Kind::kScatter,
                .input = rank_ == root ? input : NothingLike(output),
                .output = output,
                .root = root,
                .input_counts = counts},
               timeout);
}

WorkPtr ProcessGroup::AllToAll(const Buffer& input, const Buffer& output, Timeout timeout) {
  return AllToAll(input, output, Counts(), Counts(), timeout);
}

WorkPtr ProcessGroup::AllToAll(const Buffer& input, const Buffer& output,
                               const Counts& input_counts, const Counts& output_counts,
                               Timeout timeout) {
  return Issue({.kind = Kind::kAllToAll,
                .input = input,
                .output = output,
                .input_counts = input_counts,
                .output_counts = output_counts},
               timeout);
}

WorkPtr ProcessGroup::Send(const Buffer& buffer, int to, Timeout timeout) {
  return Issue({.kind = Kind::kSend, .input = buffer, .root = to}, timeout);
}

WorkPtr ProcessGroup::Receive(const Buffer& buffer, int from, Timeout timeout) {
  return Issue({.kind = Kind::kReceive, .output = buffer, .root = from}, timeout);
}

WorkPtr ProcessGroup::Barrier(Timeout timeout) { return Issue({.kind = Kind::kBarrier}, timeout); }

std::vector<std::string> ProcessGroup::ExchangeBlobs(const std::string& mine) {
  int64_t length = static_cast<int64_t>(mine.size());
  Counts lengths(size_);
  AllGather({&length, 1, ops::DType::kInt64}, {lengths.data(), size_, ops::DType::kInt64})->Wait();
  int64_t total = 0;
  for (const int64_t each : lengths) total += each;
  std::string all(total, '\0');
  // Only read, as the input of an operation is.
  AllGather({const_cast<char*>(mine.data()), length, ops::DType::kUInt8},
            {all.data(), total, ops::DType::kUInt8}, lengths)
      ->Wait();
  std::vector<std::string> blobs;
  for (size_t begin = 0; const int64_t each : lengths) {
    blobs.push_back(all.substr(begin, each));
    begin += each;
  }
  return blobs;
}

std::unique_ptr<ProcessGroup> ProcessGroup::NewGroup(const std::vector<int>& ranks) {
  const auto* const bytes = reinterpret_cast<const char*>(ranks.data());
  const std::string mine(bytes, ranks.size() * sizeof(int));
  const std::vector<std::string> lists = ExchangeBlobs(mine);
  const auto format = [](const std::string& list) {
    std::vector<int> ranks(list.size() / sizeof(int));
    std::memcpy(ranks.data(), list.data(), list.size());
    return fmt::format("{}", fmt::join(ranks, ", "));
  };
  for (int rank = 0; rank < size_; ++rank) {
    if (lists[rank] == mine) continue;
    throw MismatchError(
        fmt::format("new_group: rank {} asks for a group of ranks {}, rank {} of {}", rank_,
                    format(mine), rank, format(lists[rank])));
  }
  std::set<int> distinct;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size_ || !distinct.insert(rank).second) {
      throw std::invalid_argument(fmt::format(
          "new_group: ranks {} are not distinct ranks of 0 to {}", format(mine), size_ - 1));
    }
  }
  const auto place = std::ranges::find(ranks, rank_);
  const bool member = place != ranks.end();
  return Split(member ? 0 : -1, member ? static_cast<int>(place - ranks.begin()) : 0);
}

}  // namespace ddp
