#include "ddp/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "ddp/atomic_file.h"

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;  // keeps the order of the file

static_assert(std::endian::native == std::endian::little, "the file's values are used as they are");

// The format's own limit; a garbage length is refused before anything is allocated.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

constexpr const char* kMetadata = "__metadata__";

struct DTypeName {
  const char* name;
  ops::DType dtype;
};
constexpr DTypeName kDTypeNames[] = {{"F32", ops::DType::kFloat32},   {"F64", ops::DType::kFloat64},
                                     {"BF16", ops::DType::kBFloat16}, {"F16", ops::DType::kFloat16},
                                     {"I64", ops::DType::kInt64},     {"I32", ops::DType::kInt32},
                                     {"U8", ops::DType::kUInt8}};

std::optional<ops::DType> ParseDType(std::string_view name) {
  const auto* const found = std::ranges::find(kDTypeNames, name, &DTypeName::name);
  return found == std::end(kDTypeNames) ? std::nullopt : std::optional(found->dtype);
}

const char* NameOf(ops::DType dtype) {
  return std::ranges::find(kDTypeNames, dtype, &DTypeName::dtype)->name;
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

// An open file behind its header.
struct Opened {
  std::ifstream file;
  Json header;
  uint64_t data_start;
  uint64_t data_bytes;
};

Opened Open(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::system_error(errno, std::generic_category(), "can't open " + path);
  const uint64_t file_bytes = file.tellg();
  uint64_t header_bytes = 0;
  file.seekg(0).read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  if (file_bytes < sizeof(header_bytes) || header_bytes > kMaxHeaderBytes ||
      header_bytes > file_bytes - sizeof(header_bytes)) {
    ThrowUnsound(path, fmt::format("{} bytes, shorter than its header says", file_bytes));
  }
  std::string text(header_bytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(header_bytes));
  Json header = Json::parse(text, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) ThrowUnsound(path, "its header is not a JSON object");
  const uint64_t data_start = sizeof(header_bytes) + header_bytes;
  return {std::move(file), std::move(header), data_start, file_bytes - data_start};
}

std::vector<Entry> ParseHeader(const std::string& path, const Json& header, uint64_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) continue;
    try {
      entries.push_back(ParseEntry(name, value, data_bytes));
    } catch (const std::exception& error) {
      ThrowUnsound(path, fmt::format("'{}': {}", name, error.what()));
    }
  }
  return entries;
}

std::string_view BytesOf(const void* start, size_t count) {
  return {static_cast<const char*>(start), count};
}

// Padded with spaces, so that the values that follow are aligned.
std::string HeaderText(const std::vector<ops::NamedTensor>& tensors,
                       const SafetensorsMetadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name == kMetadata || header.contains(name)) {
      throw std::invalid_argument(
          fmt::format("a safetensors file can't hold '{}' (once more)", name));
    }
    const int64_t end = offset + tensor.num_bytes();
    const std::span<const int64_t> dims = tensor.shape().dims();
    header[name] = {{"dtype", NameOf(tensor.dtype())},
                    {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace

std::string SafetensorsHeader(const std::vector<ops::NamedTensor>& tensors,
                              const SafetensorsMetadata& metadata) {
  const std::string text = HeaderText(tensors, metadata);
  const uint64_t length = text.size();
  return std::string(BytesOf(&length, sizeof(length))) + text;
}

std::vector<ops::NamedTensor> ReadSafetensors(const std::string& path) {
  Opened opened = Open(path);
  std::vector<ops::NamedTensor> tensors;
  for (const Entry& entry : ParseHeader(path, opened.header, opened.data_bytes)) {
    ops::Tensor tensor = ops::Tensor::Empty(entry.shape, {.dtype = entry.dtype});
    opened.file.seekg(static_cast<std::streamoff>(opened.data_start + entry.begin))
        .read(reinterpret_cast<char*>(tensor.raw_data()), tensor.num_bytes());
    if (!opened.file) throw std::system_error(errno, std::generic_category(), "can't read " + path);
    tensors.push_back({entry.name, tensor});
  }
  return tensors;
}

SafetensorsMetadata ReadSafetensorsMetadata(const std::string& path) {
  const Opened opened = Open(path);
  const auto found = opened.header.find(kMetadata);
  if (found == opened.header.end()) return {};
  try {
    return found->get<SafetensorsMetadata>();
  } catch (const Json::exception& error) {
    ThrowUnsound(path, fmt::format("'{}': {}", kMetadata, error.what()));
  }
}

void WriteSafetensors(const std::string& path, const std::vector<ops::NamedTensor>& tensors,
                      const SafetensorsMetadata& metadata) {
  const std::string header = SafetensorsHeader(tensors, metadata);
  AtomicFile file(path);
  file.Write(header);
  for (const auto& [name, tensor] : tensors) {
    file.Write(BytesOf(tensor.raw_data(), tensor.num_bytes()));
  }
  file.Commit();
}

}  // namespace ddp
