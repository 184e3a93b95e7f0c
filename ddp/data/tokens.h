// Sequences of tokens, for models that guess the next one: text as bytes, and shards of token ids.
//
//   const std::vector<TokenShard> shards = OpenTokenShards("data/train_*.bin");
//   TokenDataset data(shards, {.context = 1024, .vocab = 50257});
//
// An example's input is int64[context], tokens that follow each other; its target the same tokens
// moved by one. Windows don't overlap and don't cross from one shard into the next: a shard of n
// tokens has (n - 1) / context of them, and what is left at its end is not used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/data/dataset.h"
#include "ops/tensor/tensor.h"

namespace ddp {

// Tokens that lie in memory, or in a file that is mapped.
struct TokenShard {
  std::string name;  // for messages: the file
  ops::Memory memory;
  int64_t num_tokens = 0;
  int bytes_per_token = 1;  // 1, or 2 in little-endian order

  int64_t TokenAt(int64_t index) const;
  // Tokens [begin, end).
  TokenShard Part(int64_t begin, int64_t end) const;
};

// A file's bytes, each a token from 0 to 255. Throws std::system_error with the path.
TokenShard OpenText(const std::string& path);

// Files of uint16 tokens that match a shell pattern, in the order of their names. Throws
// std::system_error where none matches or one can't be read, and std::invalid_argument, with the
// path, for an odd number of bytes.
std::vector<TokenShard> OpenTokenShards(const std::string& pattern);

struct TokenDatasetOptions {
  int64_t context = 128;
  int64_t vocab = 256;
};

class TokenDataset : public Dataset {
 public:
  // Throws std::invalid_argument, with the shard, its number of tokens, what is needed and the
  // largest context that would do, for a shard that is too short for one window.
  TokenDataset(std::vector<TokenShard> shards, const TokenDatasetOptions& options);

  int64_t size() const override { return first_windows_.back(); }
  // Throw std::invalid_argument, with the shard and the position, for a token beyond the
  // vocabulary.
  Example Get(int64_t index) const override;
  Batch GetBatch(std::span<const int64_t> indices) const override;

 private:
  // Reads one window.
  void Read(int64_t index, int64_t* input, int64_t* target) const;

  const std::vector<TokenShard> shards_;
  const TokenDatasetOptions options_;
  std::vector<int64_t> first_windows_;  // by shard, and the number of all at the end
};

}  // namespace ddp
