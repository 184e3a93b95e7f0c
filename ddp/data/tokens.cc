#include "ddp/data/tokens.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "ddp/mapped_file.h"

namespace ddp {
namespace {

using ops::Tensor;

std::vector<std::string> MatchingPaths(const std::string& pattern) {
  glob_t found = {};
  const std::unique_ptr<glob_t, decltype(&globfree)> owner(&found, globfree);
  if (glob(pattern.c_str(), 0, nullptr, &found) != 0) {
    throw std::system_error(std::make_error_code(std::errc::no_such_file_or_directory),
                            fmt::format("no token shards match '{}'", pattern));
  }
  return {found.gl_pathv, found.gl_pathv + found.gl_pathc};
}

TokenShard OpenShard(const std::string& path, int bytes_per_token) {
  MappedFile file = MapFile(path);
  if (file.num_bytes % bytes_per_token != 0) {
    throw std::invalid_argument(
        fmt::format("'{}': expected tokens of {} bytes, but it has {} bytes", path, bytes_per_token,
                    file.num_bytes));
  }
  return {path, std::move(file.bytes), file.num_bytes / bytes_per_token, bytes_per_token};
}

void CheckLength(const TokenShard& shard, int64_t context) {
  if (shard.num_tokens > context) return;
  throw std::invalid_argument(fmt::format(
      "'{}' has {} tokens, but a window of context {} needs {}; {}", shard.name, shard.num_tokens,
      context, context + 1,
      shard.num_tokens > 1 ? fmt::format("a context of up to {} would do", shard.num_tokens - 1)
                           : "no context would do"));
}

Tensor Windows(int64_t count, int64_t context) {
  return Tensor::Empty({count, context}, {.dtype = ops::DType::kInt64});
}

}  // namespace

int64_t TokenShard::TokenAt(int64_t index) const {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(memory.get());
  if (bytes_per_token == 1) return bytes[index];
  return bytes[2 * index] | bytes[2 * index + 1] << 8;
}

TokenShard TokenShard::Part(int64_t begin, int64_t end) const {
  return {name, ops::Memory(memory, memory.get() + begin * bytes_per_token), end - begin,
          bytes_per_token};
}

TokenShard OpenText(const std::string& path) { return OpenShard(path, 1); }

std::vector<TokenShard> OpenTokenShards(const std::string& pattern) {
  std::vector<TokenShard> shards;
  for (const std::string& path : MatchingPaths(pattern)) shards.push_back(OpenShard(path, 2));
  return shards;
}

TokenDataset::TokenDataset(std::vector<TokenShard> shards, const TokenDatasetOptions& options)
    : shards_(std::move(shards)), options_(options) {
  if (options.context < 1) {
    throw std::invalid_argument(
        fmt::format("a context of {} tokens: at least 1 is needed", options.context));
  }
  int64_t count = 0;
  for (const TokenShard& shard : shards_) {
    CheckLength(shard, options.context);
    first_windows_.push_back(count);
    count += (shard.num_tokens - 1) / options.context;
  }
  first_windows_.push_back(count);
}

void TokenDataset::Read(int64_t index, int64_t* input, int64_t* target) const {
  const auto after = std::ranges::upper_bound(first_windows_, index);
  const auto number = after - first_windows_.begin() - 1;
  const TokenShard& shard = shards_[number];
  const int64_t begin = (index - first_windows_[number]) * options_.context;
  for (int64_t i = 0; i <= options_.context; ++i) {
    const int64_t token = shard.TokenAt(begin + i);
    if (token >= options_.vocab) {
      throw std::invalid_argument(fmt::format("'{}': token {} is {}, but the vocabulary has {}",
                                              shard.name, begin + i, token, options_.vocab));
    }
    if (i < options_.context) input[i] = token;
    if (i > 0) target[i - 1] = token;
  }
}

Example TokenDataset::Get(int64_t index) const {
  const Batch batch = GetBatch({&index, 1});
  return {batch.inputs.View({options_.context}), batch.targets.View({options_.context})};
}

Batch TokenDataset::GetBatch(std::span<const int64_t> indices) const {
  CheckIndices(indices);
  const auto count = static_cast<int64_t>(indices.size());
  const Batch batch = {Windows(count, options_.context), Windows(count, options_.context)};
  for (int64_t i = 0; i < count; ++i) {
    Read(indices[i], batch.inputs.data<int64_t>() + i * options_.context,
         batch.targets.data<int64_t>() + i * options_.context);
  }
  return batch;
}

}  // namespace ddp
