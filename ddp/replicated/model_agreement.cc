#include "ddp/replicated/model_agreement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/replicated/work_list.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using Lines = std::vector<std::string>;

std::string DescribeTensor(std::string_view kind, const ops::NamedTensor& named) {
  return fmt::format("{} '{}' {}{}", kind, named.name, Name(named.tensor.dtype()),
                     named.tensor.shape().ToString());
}

Lines DescribeModel(const ops::nn::Module& model, const std::string& settings) {
  Lines lines;
  for (const ops::NamedTensor& parameter : model.Parameters()) {
    lines.push_back(DescribeTensor("parameter", parameter) +
                    (RequiresGrad(parameter.tensor) ? "" : ", frozen") +
                    (ExpectsSparseGrad(parameter.tensor) ? ", sparse gradient" : ""));
  }
  for (const ops::NamedTensor& buffer : model.Buffers()) {
    lines.push_back(DescribeTensor("buffer", buffer));
  }
  lines.push_back(settings);
  return lines;
}

Lines Split(std::string_view text) {
  Lines lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string LineOf(const Lines& lines, size_t i) {
  return i < lines.size() ? lines[i] : "nothing more";
}

// "rank 0 has parameter 'a' float32[2], ranks 1, 2 have parameter 'b' float32[2]"
std::string TellVersions(const std::vector<Lines>& ranks, size_t i) {
  std::vector<std::pair<std::string, std::vector<size_t>>> versions;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string line = LineOf(ranks[rank], i);
    auto version = std::ranges::find(versions, line, &decltype(versions)::value_type::first);
    if (version == versions.end()) version = versions.insert(version, {line, {}});
    version->second.push_back(rank);
  }
  Lines told;
  for (const auto& [line, of] : versions) {
    const bool one = of.size() == 1;
    told.push_back(fmt::format("rank{} {} {} {}", one ? "" : "s", fmt::join(of, ", "),
                               one ? "has" : "have", line));
  }
  return fmt::format("{}", fmt::join(told, ", "));
}

}  // namespace

void RequireSameModel(ProcessGroup& group, const ops::nn::Module& model,
                      const std::string& settings) {
  const std::string mine = fmt::format("{}", fmt::join(DescribeModel(model, settings), "\n"));
  std::vector<Lines> ranks;
  size_t longest = 0;
  for (const std::string& blob : group.ExchangeBlobs(mine)) {
    ranks.push_back(Split(blob));
    longest = std::max(longest, ranks.back().size());
  }
  for (size_t i = 0; i < longest; ++i) {
    const bool same = std::ranges::all_of(
        ranks, [&](const Lines& lines) { return LineOf(lines, i) == LineOf(ranks[0], i); });
    if (same) continue;
    throw MismatchError(
        fmt::format("the ranks' models differ, first in entry {}: {}", i, TellVersions(ranks, i)));
  }
}

void BroadcastFrom(ProcessGroup& group, int root, std::span<const ops::NamedTensor> tensors) {
  WorkList works;
  for (const ops::NamedTensor& named : tensors) {
    works.Add(group.Broadcast(BufferOf(named.tensor), root));
  }
  works.Wait();
}

}  // namespace ddp
