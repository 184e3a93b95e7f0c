#include "ddp/data/idx_testing.h"

#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace ddp {

std::string IdxBytes(const std::vector<uint32_t>& extents, const std::string& elements) {
  std::string bytes = {0, 0, 8, static_cast<char>(extents.size())};
  for (uint32_t extent : extents) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(extent >> shift);
  }
  return bytes + elements;
}

std::string Gzip(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzipWrapper = 16;
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWrapper + MAX_WBITS, 8,
               Z_DEFAULT_STRATEGY);
  std::string compressed(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = compressed.size();
  const int code = deflate(&stream, Z_FINISH);
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return compressed;
}

void WriteFile(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::filesystem::path NewFolder() {
  const char* root = std::getenv("TEST_TMPDIR");
  std::string name = (root ? std::string(root) : "/tmp") + "/idx_XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  return name;
}

}  // namespace ddp
