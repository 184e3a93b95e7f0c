// Buffers of operations, for tests: filled with known values, and compared.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "ddp/collectives/operation.h"
#include "ddp/collectives/shm/testing.h"
#include "ops/tensor/tensor.h"

namespace ddp::shm {

// Where ranks have their buffers: in memory of their own, in memory from Allocate, or some here and
// some there.
enum class Place { kOwn, kAllocated, kMixed };

inline constexpr int64_t kCanary = 8;  // elements behind a buffer that nobody may touch

// A buffer, where `place` says.
class TestBuffer {
 public:
  TestBuffer(TestRank& rank, Place place, ops::DType dtype, int64_t num_elements) {
    const int64_t num_bytes = (num_elements + kCanary) * ops::SizeOf(dtype);
    const bool allocate =
        place == Place::kAllocated || (place == Place::kMixed && rank.rank() % 2 == 1);
    memory_ = allocate ? rank.backend().Allocate(num_bytes) : ops::AllocateMemory(num_bytes);
    buffer_ = {memory_.get(), num_elements, dtype};
    Fill([](int64_t) { return 99; }, num_elements + kCanary);
  }

  const Buffer& buffer() const { return buffer_; }

  template <class F>
  void Fill(F value) {
    Fill(value, buffer_.num_elements);
  }

  // What is behind the buffer must be as it was.
  template <class F>
  void Expect(F value, const std::string& what) const {
    ops::Dispatch(buffer_.dtype, [&]<class T>() {
      const T* const data = static_cast<const T*>(buffer_.data);
      for (int64_t i = 0; i < buffer_.num_elements + kCanary; ++i) {
        const double expected = i < buffer_.num_elements ? value(i) : 99;
        if (ToDouble(data[i]) == expected) continue;
        ADD_FAILURE() << what << ": element " << i << " of " << buffer_.num_elements << " is "
                      << ToDouble(data[i]) << ", not " << expected;
        return;
      }
    });
  }

 private:
  template <class F>
  void Fill(F value, int64_t num_elements) {
    ops::Dispatch(buffer_.dtype, [&]<class T>() {
      T* const data = static_cast<T*>(buffer_.data);
      for (int64_t i = 0; i < num_elements; ++i) data[i] = static_cast<T>(float(value(i)));
    });
  }
  template <class T>
  static double ToDouble(T value) {
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<double>(value);
    } else {
      return static_cast<float>(value);
    }
  }

  ops::Memory memory_;
  Buffer buffer_;
};

// Small, so that sums over four ranks are exact in every dtype.
inline int ValueOf(int rank, int64_t i) { return static_cast<int>((rank * 7 + i * 3) % 11) + rank; }

inline int SumOf(int size, int64_t i) {
  int sum = 0;
  for (int rank = 0; rank < size; ++rank) sum += ValueOf(rank, i);
  return sum;
}

}  // namespace ddp::shm
