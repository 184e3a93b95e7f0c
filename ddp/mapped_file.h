// A file's bytes as memory: pages are read when they are touched, and shared by all processes.
#pragma once

#include <cstdint>
#include <string>

#include "ops/tensor/tensor.h"

namespace ddp {

struct MappedFile {
  ops::Memory bytes;  // read-only; unmapped with its last owner
  int64_t num_bytes = 0;
};

// Throws std::system_error with the path. The file must not shrink while it is mapped.
MappedFile MapFile(const std::string& path);

}  // namespace ddp
