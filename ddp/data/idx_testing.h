// For tests: IDX files, right and wrong ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddp {

// The content of a file with these extents in its header (right or not) and these elements.
std::string IdxBytes(const std::vector<uint32_t>& extents, const std::string& elements);

std::string Gzip(const std::string& bytes);

void WriteFile(const std::filesystem::path& path, const std::string& bytes);

// A new empty folder for one test.
std::filesystem::path NewFolder();

}  // namespace ddp
