// Snapshot: copies of many tensors, taken quickly, in memory that is used again for the next ones.
#pragma once

#include <cstdint>

#include "ddp/checkpoint/checkpoint.h"
#include "ops/tensor/tensor.h"

namespace ddp {

class Snapshot {
 public:
  // The same checkpoint with copies of its tensors, which are valid until the next call. The
  // threads of the caller's pool share the work (ops/cpu/thread_pool.h).
  Checkpoint Take(const Checkpoint& checkpoint);

  // What Take needs for a checkpoint like this. Throws std::invalid_argument for a tensor that
  // isn't in CPU memory.
  static int64_t BytesOf(const Checkpoint& checkpoint);
  // Takes so much memory from the system, page by page, which costs more than copying does: the
  // first Take is as quick as the others then.
  void Prepare(int64_t num_bytes);

 private:
  // At least so much.
  void Reserve(int64_t num_bytes);

  ops::Memory memory_;
  int64_t num_bytes_ = 0;
};

}  // namespace ddp
