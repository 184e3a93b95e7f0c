#include "ddp/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of the file

static_assert(std::endian::native == std::endian::little, "the file's values are used as they are");

// The format's own limit; a garbage length is refused before anything is allocated.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

std::optional<ops::DType> ParseDType(const std::string& name) {
  static const std::map<std::string, ops::DType> kNames = {
      {"F32", ops::DType::kFloat32}, {"F64", ops::DType::kFloat64}, {"BF16", ops::DType::kBFloat16},
      {"F16", ops::DType::kFloat16}, {"I64", ops::DType::kInt64},   {"I32", ops::DType::kInt32},
      {"U8", ops::DType::kUInt8}};
  auto found = kNames.find(name);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

[[noreturn]] void ThrowUnsound(const std::string& path, const std::string& what) {
  throw std::invalid_argument(fmt::format("{} is not a sound safetensors file: {}", path, what));
}

struct Entry {
  std::string name;
  ops::Shape shape;
  ops::DType dtype;
  uint64_t begin, end;
};

Entry ParseEntry(const std::string& path, const std::string& name, const Json& value,
                 uint64_t data_bytes) {
  const std::string dtype_name = value.at("dtype");
  const std::optional<ops::DType> dtype = ParseDType(dtype_name);
  if (!dtype) ThrowUnsound(path, fmt::format("'{}' has unknown dtype {}", name, dtype_name));
  const auto dims = value.at("shape").get<std::vector<int64_t>>();
  const auto offsets = value.at("data_offsets").get<std::vector<uint64_t>>();
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    ThrowUnsound(path, fmt::format("'{}' lies at [{}], outside the {} bytes of data", name,
                                   fmt::join(offsets, ", "), data_bytes));
  }
  Entry entry{name, ops::Shape(std::span<const int64_t>(dims)), *dtype, offsets[0], offsets[1]};
  unsigned __int128 bytes = ops::SizeOf(*dtype);  // can't overflow: at most 6 extents are checked
  for (int64_t extent : dims) {
    bytes *= static_cast<uint64_t>(extent);
    if (extent != 0 && bytes > data_bytes) break;
  }
  if (bytes != entry.end - entry.begin) {
    ThrowUnsound(path, fmt::format("'{}', {} of shape {}, has {} bytes", name, dtype_name,
                                   entry.shape.ToString(), entry.end - entry.begin));
  }
  return entry;
}

std::vector<Entry> ParseHeader(const std::string& path, const std::string& text,
                               uint64_t data_bytes) {
  std::vector<Entry> entries;
  try {
    const Json header = Json::parse(text);
    for (const auto& [name, value] : header.items()) {
      if (name != "__metadata__") entries.push_back(ParseEntry(path, name, value, data_bytes));
    }
  } catch (const nlohmann::json::exception& error) {
    ThrowUnsound(path, error.what());
  }
  return entries;
}

}  // namespace

std::vector<ops::NamedTensor> ReadSafetensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::system_error(errno, std::generic_category(), "can't open " + path);
  const uint64_t file_bytes = file.tellg();
  uint64_t header_bytes = 0;
  file.seekg(0).read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  if (file_bytes < sizeof(header_bytes) || header_bytes > kMaxHeaderBytes ||
      header_bytes > file_bytes - sizeof(header_bytes)) {
    ThrowUnsound(path, fmt::format("{} bytes, shorter than its header says", file_bytes));
  }
  std::string header(header_bytes, '\0');
  file.read(header.data(), header_bytes);
  const uint64_t data_start = sizeof(header_bytes) + header_bytes;

  std::vector<ops::NamedTensor> tensors;
  for (const Entry& entry : ParseHeader(path, header, file_bytes - data_start)) {
    ops::Tensor tensor = ops::Tensor::Empty(entry.shape, {.dtype = entry.dtype});
    file.seekg(data_start + entry.begin)
        .read(reinterpret_cast<char*>(tensor.raw_data()), tensor.num_bytes());
    if (!file) throw std::system_error(errno, std::generic_category(), "can't read " + path);
    tensors.push_back({entry.name, tensor});
  }
  return tensors;
}

}  // namespace ddp
