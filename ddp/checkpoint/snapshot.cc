#include "ddp/checkpoint/snapshot.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

#include "ops/cpu/thread_pool.h"

namespace ddp {
namespace {

constexpr int64_t kAlignment = 64;
// What a thread copies at a time.
constexpr int64_t kChunkBytes = 1 << 20;

int64_t AlignedBytes(const ops::Tensor& tensor) {
  return (tensor.num_bytes() + kAlignment - 1) / kAlignment * kAlignment;
}

void Copy(const ops::Tensor& from, std::byte* to) {
  ops::cpu::ParallelFor(from.num_bytes(), kChunkBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from.raw_data() + begin, end - begin);
  });
}

}  // namespace

int64_t Snapshot::BytesOf(const Checkpoint& checkpoint) {
  int64_t num_bytes = 0;
  for (const auto& [group, tensors] : checkpoint.tensors) {
    for (const auto& [name, tensor] : tensors) {
      if (!tensor.defined() || !tensor.device().is_cpu()) {
        throw std::invalid_argument(
            fmt::format("a checkpoint can't hold '{}' of {}: it is {}", name, group,
                        tensor.defined() ? tensor.Describe() : "undefined"));
      }
      num_bytes += AlignedBytes(tensor);
    }
  }
  return num_bytes;
}

Checkpoint Snapshot::Take(const Checkpoint& checkpoint) {
  Reserve(BytesOf(checkpoint));
  Checkpoint copy = checkpoint;
  std::byte* next = memory_.get();
  for (auto& [group, tensors] : copy.tensors) {
    for (auto& [name, tensor] : tensors) {
      const int64_t num_bytes = AlignedBytes(tensor);
      Copy(tensor, next);
      tensor =
          ops::Tensor::Wrap(ops::Memory(memory_, next), tensor.shape(), {.dtype = tensor.dtype()});
      next += num_bytes;
    }
  }
  return copy;
}

void Snapshot::Prepare(int64_t num_bytes) {
  constexpr int64_t kPageBytes = 4096;
  Reserve(num_bytes);
  for (int64_t i = 0; i < num_bytes_; i += kPageBytes) memory_.get()[i] = std::byte{0};
}

void Snapshot::Reserve(int64_t num_bytes) {
  if (num_bytes <= num_bytes_) return;
  memory_ = nullptr;
  num_bytes_ = 0;
  memory_ = ops::AllocateMemory(num_bytes);
  num_bytes_ = num_bytes;
}

}  // namespace ddp
