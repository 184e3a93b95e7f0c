#include "ops/tensor/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "ops/tensor/block_cache.h"
#include "ops/tensor/random.h"
#include "ops/tensor/small_blocks.h"

namespace ops {
namespace {

// Small memory comes with its reference counts in one allocation.
struct SmallBlock {
  alignas(16) std::byte bytes[16];
};
constexpr int64_t kSmallBytes = kMaxSmallBytes - 64;  // the rest is for the counts

Memory AllocateSmall(int64_t num_bytes) {
  const auto count = static_cast<size_t>(num_bytes + 15) / sizeof(SmallBlock);
  auto blocks =
      std::allocate_shared_for_overwrite<SmallBlock[]>(SmallBlockAllocator<SmallBlock>(), count);
  auto* const first = reinterpret_cast<std::byte*>(blocks.get());
  return Memory(std::move(blocks), first);
}

// The process's: tensors are freed by other threads than those that made them, and until the very
// end, so it is never destroyed.
BlockCache& LargeBlocks() {
  constexpr int64_t kMaxIdleBytes = 256 << 20;
  static BlockCache& cache = *new BlockCache(kMaxIdleBytes);
  return cache;
}

Memory AllocateLarge(int64_t num_bytes) {
  return Memory(
      LargeBlocks().Allocate(num_bytes),
      [num_bytes](std::byte* block) { LargeBlocks().Free(block, num_bytes); },
      SmallBlockAllocator<std::byte>());
}

template <class To, class From>
To Convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_class_v<From>) {
    return Convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_class_v<To>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

void ConvertElements(const void* source, DType from, void* target, DType to, int64_t count) {
  if (count == 0) return;
  if (from == to) {
    std::memmove(target, source, count * SizeOf(from));
    return;
  }
  Dispatch(from, [&]<class From>() {
    Dispatch(to, [&]<class To>() {
      std::transform(static_cast<const From*>(source), static_cast<const From*>(source) + count,
                     static_cast<To*>(target), Convert<To, From>);
    });
  });
}

}  // namespace

Memory AllocateMemory(int64_t num_bytes, const Device& device) {
  CheckAvailable(device);
  if (!device.is_cpu()) {
    throw std::invalid_argument(
        fmt::format("no tensors on {} yet: this version trains on the CPU; use device 'cpu'",
                    device.ToString()));
  }
  return num_bytes <= kSmallBytes ? AllocateSmall(num_bytes) : AllocateLarge(num_bytes);
}

Tensor Tensor::Wrap(Memory memory, const Shape& shape, const TensorOptions& options) {
  Tensor tensor;
  tensor.impl_ = std::allocate_shared<Impl>(
      SmallBlockAllocator<Impl>(),
      Impl{std::move(memory), shape, shape.num_elements(), options.dtype, options.device, nullptr});
  return tensor;
}

Tensor Tensor::Empty(const Shape& shape, const TensorOptions& options) {
  return Wrap(AllocateMemory(shape.num_elements() * SizeOf(options.dtype), options.device), shape,
              options);
}

Tensor Tensor::Zeros(const Shape& shape, const TensorOptions& options) {
  Tensor tensor = Empty(shape, options);
  tensor.FillZero();
  return tensor;
}

Tensor Tensor::Full(const Shape& shape, double value, const TensorOptions& options) {
  Tensor tensor = Empty(shape, options);
  tensor.Fill(value);
  return tensor;
}

Tensor Tensor::Rand(const Shape& shape, Generator& generator, const TensorOptions& options) {
  Tensor tensor = Empty(shape, options);
  generator.FillUniform(tensor, 0, 1);
  return tensor;
}

Tensor Tensor::Randn(const Shape& shape, Generator& generator, const TensorOptions& options) {
  Tensor tensor = Empty(shape, options);
  generator.FillNormal(tensor, 0, 1);
  return tensor;
}

Tensor Tensor::FromBytes(const void* values, int64_t count, const Shape& shape,
                         const TensorOptions& options) {
  if (count != shape.num_elements()) {
    throw std::invalid_argument(
        fmt::format("{} values don't fill a tensor of shape {}", count, shape.ToString()));
  }
  Tensor tensor = Empty(shape, options);
  ConvertElements(values, options.dtype, tensor.raw_data(), options.dtype, count);
  return tensor;
}

Tensor Tensor::View(const Shape& shape) const {
  if (shape.num_elements() != num_elements()) {
    throw std::invalid_argument(fmt::format("can't view {} as shape {}: {} elements, not {}",
                                            Describe(), shape.ToString(), num_elements(),
                                            shape.num_elements()));
  }
  return Wrap(memory(), shape, options());
}

Tensor Tensor::Slice(int64_t begin, int64_t end) const {
  if (shape().rank() == 0 || begin < 0 || begin > end || end > dim(0)) {
    throw std::invalid_argument(
        fmt::format("rows [{}, {}) are not in a tensor {}", begin, end, Describe()));
  }
  const Shape row = shape().DropFirst();
  const int64_t offset_bytes = begin * row.num_elements() * SizeOf(dtype());
  return Wrap(Memory(memory(), raw_data() + offset_bytes), row.Prepend(end - begin), options());
}

Tensor Tensor::Detach() const { return Wrap(memory(), shape(), options()); }

Tensor Tensor::Clone() const { return To(dtype()); }

Tensor Tensor::To(DType dtype) const {
  Tensor copy = Empty(shape(), {dtype, device()});
  copy.CopyFrom(*this);
  return copy;
}

Tensor Tensor::To(const Device& device) const {
  if (device == this->device()) return *this;
  Tensor copy = Empty(shape(), {dtype(), device});
  copy.CopyFrom(*this);
  return copy;
}

void Tensor::CopyFrom(const Tensor& source) const {
  if (source.shape() != shape()) {
    throw std::invalid_argument(
        fmt::format("can't copy {} into {}", source.Describe(), Describe()));
  }
  source.CopyTo(raw_data(), dtype());
}

void Tensor::CopyTo(void* values, DType dtype) const {
  ConvertElements(raw_data(), this->dtype(), values, dtype, num_elements());
}

void Tensor::Fill(double value) const {
  Dispatch(dtype(), [&]<class T>() { std::ranges::fill(elements<T>(), Convert<T>(value)); });
}

void Tensor::FillZero() const { std::memset(raw_data(), 0, num_bytes()); }

double Tensor::Item() const {
  if (num_elements() != 1) {
    throw std::invalid_argument(
        fmt::format("Item() needs a tensor with one element, got {}", Describe()));
  }
  return Dispatch(dtype(), [&]<class T>() { return Convert<double>(*data<T>()); });
}

std::string Tensor::Describe() const {
  if (!defined()) return "undefined tensor";
  std::string text = fmt::format("{}{}", Name(dtype()), shape().ToString());
  if (!device().is_cpu()) text += " on " + device().ToString();
  return text;
}

void Tensor::ThrowWrongDType(DType asked) const {
  throw std::invalid_argument(fmt::format("elements of {} read as {}", Describe(), Name(asked)));
}

}  // namespace ops
