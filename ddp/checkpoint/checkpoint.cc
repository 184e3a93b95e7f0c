#include "ddp/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "ddp/atomic_file.h"
#include "ddp/checkpoint/checkpoint_state.h"
#include "ddp/checkpoint/checksummed_file.h"
#include "ddp/checkpoint/safetensors.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr std::string_view kFolder = "step-", kSaving = ".saving-", kDeleted = ".deleted-";
constexpr std::string_view kTensors = ".safetensors";
constexpr const char *kManifest = "manifest.json", *kState = "state.json";

using Manifest = std::map<std::string, Checksum>;  // by the file's name

[[noreturn]] void ThrowDamaged(const std::string& path, const std::string& what) {
  throw DamagedCheckpoint(fmt::format("{}: {}", path, what));
}

[[noreturn]] void ThrowCantWrite(const std::string& path) {
  throw std::system_error(errno, std::generic_category(), "can't write " + path);
}

// A new folder whose name begins so. Returns its path.
std::string MakeFolder(const std::string& directory, std::string_view prefix) {
  std::string path = fmt::format("{}/{}XXXXXX", directory, prefix);
  if (mkdtemp(path.data()) == nullptr || chmod(path.c_str(), 0755) != 0) ThrowCantWrite(directory);
  return path;
}

// A folder that goes again unless it is committed.
class NewFolder {
 public:
  explicit NewFolder(const std::string& directory)
      : directory_(directory), path_(MakeFolder(directory, kSaving)) {}
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return path_; }

  // Gives it this name, or that with a number behind it where it is taken. Returns the path.
  std::string Commit(const std::string& name) {
    SyncFolder(path_);
    for (int attempt = 1;; ++attempt) {
      std::string target = fmt::format("{}/{}", directory_, name);
      if (attempt > 1) target += fmt::format(".{}", attempt);
      if (rename(path_.c_str(), target.c_str()) == 0) {
        path_.clear();
        SyncFolder(directory_);
        return target;
      }
      if (errno != ENOTEMPTY && errno != EEXIST) ThrowCantWrite(target);
    }
  }

 private:
  const std::string directory_;
  std::string path_;  // "" once it is committed
};

void CheckGroupName(const std::string& name) {
  const bool good = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_';
  });
  if (good) return;
  throw std::invalid_argument(fmt::format(
      "a checkpoint can't have a group '{}': expected letters, digits, '-' and '_'", name));
}

Checksum WriteText(const std::string& path, std::string_view text) {
  ChecksummedFile file(path);
  file.Write(text);
  return file.Finish();
}

Checksum WriteTensors(const std::string& path, const std::vector<ops::NamedTensor>& tensors) {
  ChecksummedFile file(path);
  file.Write(SafetensorsHeader(tensors));
  for (const auto& [name, tensor] : tensors) {
    file.Write({reinterpret_cast<const char*>(tensor.raw_data()),
                static_cast<size_t>(tensor.num_bytes())});
  }
  return file.Finish();
}

std::string ManifestText(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, checksum] : manifest) {
    files[name] = {{"bytes", checksum.num_bytes}, {"crc32", checksum.crc32}};
  }
  return Json({{"format", kFormat}, {"files", files}}).dump(2) + "\n";
}

// Calls `read`, and turns what is an error of the disk or of the files' contents into
// DamagedCheckpoint.
template <class Read>
auto Reading(const std::string& path, Read read) {
  try {
    return read();
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    if (code == ENOENT || code == ENOTDIR || code == EIO) throw DamagedCheckpoint(error.what());
    throw;
  } catch (const std::invalid_argument& error) {
    ThrowDamaged(path, error.what());
  } catch (const Json::exception& error) {
    ThrowDamaged(path, error.what());
  }
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  char piece[4096];
  while (file.read(piece, sizeof piece), file.gcount() > 0) text.append(piece, file.gcount());
  if (!file.is_open() || file.bad()) {
    throw std::system_error(errno, std::generic_category(), "can't read " + path);
  }
  return text;
}

Manifest ReadManifest(const std::string& path) {
  return Reading(path, [&] {
    const Json json = Json::parse(ReadText(path));
    if (json.at("format") != kFormat) {
      ThrowDamaged(path, fmt::format("format {}, expected {}", json["format"].dump(), kFormat));
    }
    Manifest manifest;
    for (const auto& [name, entry] : json.at("files").items()) {
      manifest[name] = {.num_bytes = entry.at("bytes").get<int64_t>(),
                        .crc32 = entry.at("crc32").get<uint32_t>()};
    }
    if (!manifest.contains(kState)) ThrowDamaged(path, fmt::format("it names no {}", kState));
    return manifest;
  });
}

void Verify(const std::string& path, const Checksum& expected) {
  const Checksum checksum = Reading(path, [&] { return ChecksumOf(path); });
  if (checksum.num_bytes != expected.num_bytes) {
    ThrowDamaged(path,
                 fmt::format("{} bytes, expected {}", checksum.num_bytes, expected.num_bytes));
  }
  if (checksum != expected) {
    ThrowDamaged(path, fmt::format("its CRC-32 is {:08x}, expected {:08x}: its bytes have changed",
                                   checksum.crc32, expected.crc32));
  }
}

Manifest ReadVerified(const std::string& path) {
  Manifest manifest = ReadManifest(path + "/" + kManifest);
  for (const auto& [name, checksum] : manifest) Verify(path + "/" + name, checksum);
  return manifest;
}

// "step-00000120.2" as {120, 2}; nothing for another name.
std::optional<std::pair<int64_t, int64_t>> ParseName(std::string_view name) {
  if (!name.starts_with(kFolder)) return std::nullopt;
  name.remove_prefix(kFolder.size());
  const auto number = [&]() -> std::optional<int64_t> {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    name.remove_prefix(end - name.data());
    return value;
  };
  const std::optional<int64_t> step = number();
  if (!step) return std::nullopt;
  if (name.empty()) return std::pair(*step, int64_t{1});
  if (name[0] != '.') return std::nullopt;
  name.remove_prefix(1);
  const std::optional<int64_t> attempt = number();
  if (!attempt || !name.empty()) return std::nullopt;
  return std::pair(*step, *attempt);
}

// As far as it can be done.
void DeleteLeftovers(const std::string& directory) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kSaving) || name.starts_with(kDeleted)) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

}  // namespace

const std::vector<ops::NamedTensor>& Checkpoint::Group(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  throw std::invalid_argument(fmt::format("the checkpoint of step {} has no '{}'", step, name));
}

std::string WriteCheckpoint(const std::string& directory, const Checkpoint& checkpoint) {
  NewFolder folder(directory);
  const auto path = [&](const std::string& name) { return folder.path() + "/" + name; };
  Manifest manifest;
  manifest[kState] = WriteText(path(kState), StateText(checkpoint));
  for (const auto& [group, tensors] : checkpoint.tensors) {
    CheckGroupName(group);
    const std::string name = group + std::string(kTensors);
    manifest[name] = WriteTensors(path(name), tensors);
  }
  WriteText(path(kManifest), ManifestText(manifest));
  return folder.Commit(fmt::format("{}{:08}", kFolder, checkpoint.step));
}

Checkpoint ReadCheckpoint(const std::string& path) {
  const Manifest manifest = ReadVerified(path);
  return Reading(path, [&] {
    Checkpoint checkpoint = ParseState(ReadText(path + "/" + kState));
    for (const auto& [name, checksum] : manifest) {
      if (!name.ends_with(kTensors)) continue;
      const std::string group = name.substr(0, name.size() - kTensors.size());
      checkpoint.tensors[group] = ReadSafetensors(path + "/" + name);
    }
    return checkpoint;
  });
}

int64_t VerifyCheckpoint(const std::string& path) {
  int64_t num_bytes = 0;
  for (const auto& [name, checksum] : ReadVerified(path)) num_bytes += checksum.num_bytes;
  return num_bytes;
}

std::vector<std::string> ListCheckpoints(const std::string& directory) {
  if (!fs::exists(directory)) return {};
  std::vector<std::pair<std::pair<int64_t, int64_t>, std::string>> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (const auto place = ParseName(name)) found.emplace_back(*place, directory + "/" + name);
  }
  std::ranges::sort(found, std::greater<>());
  std::vector<std::string> paths;
  for (auto& [place, path] : found) paths.push_back(std::move(path));
  return paths;
}

void DeleteOldCheckpoints(const std::string& directory, const std::string& newest, int64_t keep) {
  std::vector<std::string> paths = ListCheckpoints(directory);
  paths.erase(paths.begin(), std::ranges::find(paths, newest));
  std::set<int64_t> kept;
  for (const std::string& path : paths) {
    const int64_t step = ParseName(fs::path(path).filename().string())->first;
    // One of a step that there is a newer one of was damaged, or is as good.
    if (static_cast<int64_t>(kept.size()) < keep && kept.insert(step).second) continue;
    // First out of the way as a whole: a folder of which half is deleted would look damaged.
    fs::rename(path, MakeFolder(directory, kDeleted) + "/checkpoint");
  }
  DeleteLeftovers(directory);
}

}  // namespace ddp
