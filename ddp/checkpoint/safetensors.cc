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
  uint64_t begin;
};

// Throws std::invalid_argument, or what nlohmann::json throws, for an entry that can't be right.
Entry ParseEntry(const std::string& name, const Json& value, uint64_t data_bytes) {
  const std::string dtype_name = value.at("dtype");
  const std::optional<ops::DType> dtype = ParseDType(dtype_name);
  if (!dtype) throw std::invalid_argument("unknown dtype " + dtype_name);
  const ops::Shape shape(value.at("shape").get<std::vector<int64_t>>());
  const auto offsets = value.at("data_offsets").get<std::vector<uint64_t>>();
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_bytes) {
    throw std::invalid_argument(fmt::format("it lies at [{}], outside the {} bytes of data",
                                            fmt::join(offsets, ", "), data_bytes));
  }
  const uint64_t num_bytes = offsets[1] - offsets[0];
  if (static_cast<uint64_t>(shape.num_elements() * ops::SizeOf(*dtype)) != num_bytes) {
    throw std::invalid_argument(
        fmt::format("{} of shape {} has {} bytes", dtype_name, shape.ToString(), num_bytes));
  }
  return {name, shape, *dtype, offsets[0]};
}

std::vector<Entry> ParseHeader(const std::string& path, const std::string& text,
                               uint64_t data_bytes) {
  const Json header = Json::parse(text, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) ThrowUnsound(path, "its header is not a JSON object");
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      entries.push_back(ParseEntry(name, value, data_bytes));
    } catch (const std::exception& error) {
      ThrowUnsound(path, fmt::format("'{}': {}", name, error.what()));
    }
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
