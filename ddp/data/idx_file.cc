#include "ddp/data/idx_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace ddp {
namespace {

constexpr int kUInt8Type = 8;

// The magic number of such a file: type and number of dimensions.
constexpr uint32_t Magic(int num_dimensions) { return kUInt8Type << 8 | num_dimensions; }

// A file's content, decompressed where it needs to be (zlib passes other files through).
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : path_(path), file_(gzopen(path.c_str(), "rb"), gzclose) {
    if (!file_) throw std::system_error(errno, std::generic_category(), path.string());
    gzbuffer(file_.get(), 256 << 10);
  }

  // Up to `count` bytes; fewer only at the end.
  size_t Read(uint8_t* bytes, size_t count) {
    errno = 0;
    const int got = gzread(file_.get(), bytes, static_cast<unsigned>(count));
    int code = Z_OK;
    const std::string_view text = gzerror(file_.get(), &code);  // begins with the path
    if (code == Z_ERRNO) throw std::system_error(errno, std::generic_category(), path_.string());
    if (got < 0 || code != Z_OK) {
      const size_t reason = std::min(text.rfind(": "), text.size());
      Fail(fmt::format("its gzip compression is damaged{}", text.substr(reason)));
    }
    return got;
  }

  [[noreturn]] void Fail(std::string_view why) const {
    throw std::invalid_argument(fmt::format("'{}': {}", path_.string(), why));
  }

 private:
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, decltype(&gzclose)> file_;
};

uint32_t ReadBigEndian(Reader& reader, std::string_view what) {
  std::array<uint8_t, 4> bytes;
  if (reader.Read(bytes.data(), bytes.size()) < bytes.size()) {
    reader.Fail(fmt::format("expected IDX {}, but the file ends within the header", what));
  }
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

void CheckMagic(const Reader& reader, uint32_t magic, int num_dimensions, std::string_view what) {
  if (magic == Magic(num_dimensions)) return;
  const bool is_idx = (magic & 0xffffff00) == Magic(0);
  reader.Fail(fmt::format(
      "expected IDX {} ({} dimensions, magic number {:#010x}), found {} (magic number {:#010x})",
      what, num_dimensions, Magic(num_dimensions),
      is_idx ? fmt::format("IDX data of {} dimension{}", magic & 0xff, magic % 256 == 1 ? "" : "s")
             : "something else",
      magic));
}

// Reads at most `limit` bytes, in pieces: memory grows with what is there. Compressed images are
// seldom less than a sixteenth of their size.
std::vector<uint8_t> ReadUpTo(Reader& reader, uint64_t limit, uint64_t file_bytes) {
  constexpr uint64_t kPiece = 4 << 20;
  std::vector<uint8_t> bytes;
  bytes.reserve(std::min(limit, 16 * file_bytes));
  while (bytes.size() < limit) {
    const size_t begin = bytes.size();
    const size_t piece = std::min(kPiece, limit - begin);
    bytes.resize(begin + piece);
    const size_t got = reader.Read(bytes.data() + begin, piece);
    if (got < piece) {
      bytes.resize(begin + got);
      break;
    }
  }
  return bytes;
}

}  // namespace

IdxFile ReadIdxFile(const std::filesystem::path& path, int num_dimensions, const char* what) {
  Reader reader(path);
  CheckMagic(reader, ReadBigEndian(reader, what), num_dimensions, what);
  IdxFile file;
  for (int i = 0; i < num_dimensions; ++i) file.extents.push_back(ReadBigEndian(reader, what));

  const std::string claim = fmt::format("its header promises {} {}", fmt::join(file.extents, " x "),
                                        num_dimensions == 1 ? what : "bytes");
  uint64_t expected = 1;
  for (int64_t extent : file.extents) {
    if (__builtin_mul_overflow(expected, static_cast<uint64_t>(extent), &expected)) {
      reader.Fail(claim + ", more than any file holds");
    }
  }
  file.elements = ReadUpTo(reader, expected, std::filesystem::file_size(path));
  if (file.elements.size() < expected) {
    reader.Fail(fmt::format("{}, but only {} of {} bytes follow: it is truncated", claim,
                            file.elements.size(), expected));
  }
  uint8_t more;
  if (reader.Read(&more, 1) != 0) reader.Fail(claim + ", but more bytes follow");
  return file;
}

}  // namespace ddp
