// Tensor: a shape, an element type, a device and memory that several tensors may share.
//
//   Tensor x = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6}, {2, 3});
//   Tensor row = x.Slice(1, 2).View({3});  // shares memory with x
//   float* p = row.data<float>();          // throws unless the elements are float32
//
// A Tensor is a handle: copies refer to the same elements, as in PyTorch, and constness is the
// handle's. Elements are contiguous and row-major, always; a view is a contiguous range of another
// tensor's elements. Memory lives as long as its last tensor.
//
// Threads: distinct handles may be used by several threads at once; the elements are the user's to
// synchronise. Gradients hang on tensors through an opaque TensorMeta (see ops/autograd/grad.h);
// nothing in this folder records a tape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ops/tensor/device.h"
#include "ops/tensor/dtype.h"
#include "ops/tensor/shape.h"

namespace ops {

class Generator;

// Memory of a tensor or a buffer: freed, returned or unmapped with its last owner. A view's Memory
// shares ownership with the whole and points at the view's first byte.
using Memory = std::shared_ptr<std::byte>;

// `num_bytes` bytes, not initialised, aligned for vector loads. Throws std::invalid_argument for a
// device that can't be used, std::bad_alloc when memory is short. Freed memory stays with
// the process for the next allocation of the size: small_blocks.h and, up to 256 MiB,
// block_cache.h.
Memory AllocateMemory(int64_t num_bytes, const Device& device = Device::Cpu());

// What another room hangs on a tensor; ops/autograd keeps gradients here.
struct TensorMeta {
  virtual ~TensorMeta() = default;
};

struct TensorOptions {
  DType dtype = DType::kFloat32;
  Device device = Device::Cpu();
};

class Tensor {
 public:
  // An undefined tensor; everything but defined() and assignment throws or is meaningless.
  Tensor() = default;

  // Not initialised.
  static Tensor Empty(const Shape& shape, const TensorOptions& options = {});
  static Tensor Zeros(const Shape& shape, const TensorOptions& options = {});
  static Tensor Full(const Shape& shape, double value, const TensorOptions& options = {});
  static Tensor Scalar(double value, const TensorOptions& options = {}) {
    return Full({}, value, options);
  }
  // Uniform in [0, 1) and standard normal; floating point only.
  static Tensor Rand(const Shape& shape, Generator& generator, const TensorOptions& options = {});
  static Tensor Randn(const Shape& shape, Generator& generator, const TensorOptions& options = {});
  // Copies; throws std::invalid_argument unless values.size() is the shape's number of elements.
  template <class T>
  static Tensor FromVector(const std::vector<T>& values, const Shape& shape,
                           const Device& device = Device::Cpu()) {
    return FromBytes(values.data(), static_cast<int64_t>(values.size()), shape,
                     {kDTypeOf<T>, device});
  }
  // A tensor over memory that came from elsewhere, such as ProcessGroup::Allocate.
  static Tensor Wrap(Memory memory, const Shape& shape, const TensorOptions& options = {});

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const { return impl_->shape; }
  int64_t dim(int i) const { return impl_->shape.dim(i); }
  DType dtype() const { return impl_->dtype; }
  const Device& device() const { return impl_->device; }
  int64_t num_elements() const { return impl_->num_elements; }
  int64_t num_bytes() const { return impl_->num_elements * SizeOf(impl_->dtype); }
  TensorOptions options() const { return {impl_->dtype, impl_->device}; }

  // The elements. data<T>() throws std::invalid_argument when T isn't the element type.
  template <class T>
  T* data() const {
    if (impl_->dtype != kDTypeOf<T>) ThrowWrongDType(kDTypeOf<T>);
    return reinterpret_cast<T*>(impl_->memory.get());
  }
  std::byte* raw_data() const { return impl_->memory.get(); }
  const Memory& memory() const { return impl_->memory; }
  template <class T>
  std::span<T> elements() const {
    return {data<T>(), static_cast<size_t>(num_elements())};
  }

  // The same elements in another shape; throws std::invalid_argument unless the number of elements
  // is the same. Carries no gradient; see Reshape in ops/autograd for one that does.
  Tensor View(const Shape& shape) const;
  // Rows [begin, end) of the first dimension.
  Tensor Slice(int64_t begin, int64_t end) const;
  // A handle on the same elements without the meta: gradients stop here.
  Tensor Detach() const;

  // A copy with memory of its own.
  Tensor Clone() const;
  // A copy converted to `dtype` (rounding to nearest; towards zero for integers).
  Tensor To(DType dtype) const;
  // This tensor where it already is on `device`, else a copy there.
  Tensor To(const Device& device) const;
  // Overwrites the elements, converting; throws std::invalid_argument unless shapes are equal.
  void CopyFrom(const Tensor& source) const;
  void Fill(double value) const;
  void FillZero() const;

  // The value of a tensor with exactly one element; throws std::invalid_argument otherwise.
  double Item() const;
  // Copies the elements out, converting.
  template <class T>
  std::vector<T> ToVector() const {
    std::vector<T> values(num_elements());
    CopyTo(values.data(), kDTypeOf<T>);
    return values;
  }

  // "float32[64, 784]", with the device where it isn't the CPU: what error messages print.
  std::string Describe() const;

  // True when nobody else refers to this tensor or to its memory: what it holds may be overwritten.
  bool IsSoleOwner() const { return impl_.use_count() == 1 && impl_->memory.use_count() == 1; }
  // True for two handles of one tensor (not merely equal values).
  bool IsSameAs(const Tensor& other) const { return impl_ == other.impl_; }

  TensorMeta* meta() const { return impl_->meta.get(); }
  const std::shared_ptr<TensorMeta>& shared_meta() const { return impl_->meta; }
  void set_meta(std::shared_ptr<TensorMeta> meta) const { impl_->meta = std::move(meta); }

 private:
  friend class WeakTensor;

  struct Impl {
    Memory memory;
    Shape shape;
    int64_t num_elements = 0;
    DType dtype = DType::kFloat32;
    Device device;
    std::shared_ptr<TensorMeta> meta;
  };

  static Tensor FromBytes(const void* values, int64_t count, const Shape& shape,
                          const TensorOptions& options);
  void CopyTo(void* values, DType dtype) const;
  [[noreturn]] void ThrowWrongDType(DType asked) const;

  std::shared_ptr<Impl> impl_;
};

// A reference to a tensor that doesn't keep it alive.
class WeakTensor {
 public:
  explicit WeakTensor(const Tensor& tensor) : impl_(tensor.impl_) {}

  // The tensor; undefined when its last handle has gone.
  Tensor Lock() const {
    Tensor tensor;
    tensor.impl_ = impl_.lock();
    return tensor;
  }

 private:
  std::weak_ptr<Tensor::Impl> impl_;
};

// A tensor and the name by which messages, state dicts and checkpoints know it
// ("blocks.0.fc.weight").
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace ops
