// IDX: the file format of MNIST. Big-endian: two zero bytes, the element type (8: uint8), the
// number of dimensions, each extent as a uint32, then the elements.
// http://yann.lecun.com/exdb/mnist/
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace ddp {

struct IdxFile {
  std::vector<int64_t> extents;  // outermost first
  std::vector<uint8_t> elements;
};

// Reads a file of bytes in `num_dimensions` dimensions, plain or compressed by gzip (told by
// content, whatever the name). `what` is what it should hold ("images"), for messages. Throws
// std::system_error where the file can't be read, and std::invalid_argument, with the path, where
// it isn't such a file: another format or number of dimensions, elements missing or left over,
// damaged compression. Memory stays in proportion to the file, whatever its header claims.
IdxFile ReadIdxFile(const std::filesystem::path& path, int num_dimensions, const char* what);

}  // namespace ddp
