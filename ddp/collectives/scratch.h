// Scratch: memory that grows and stays, for data on its way to a result.
#pragma once

#include <cstddef>
#include <memory>

namespace ddp {

class Scratch {
 public:
  // At least so many bytes, until the next call.
  std::byte* Reserve(size_t num_bytes) {
    if (num_bytes_ < num_bytes) {
      bytes_ = std::make_unique_for_overwrite<std::byte[]>(num_bytes);
      num_bytes_ = num_bytes;
    }
    return bytes_.get();
  }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  size_t num_bytes_ = 0;
};

}  // namespace ddp
