#include "tests/checkpoints/runs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace launch {

namespace fs = std::filesystem;

Arguments operator+(Arguments one, const Arguments& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

ProgramOutput Train(const Arguments& flags) {
  return RunProgram(Arguments{"launch/train"} + flags);
}

std::string NewPath(const std::string& name) {
  const std::string path = testing::TempDir() + "/" + name;
  fs::remove_all(path);
  return path;
}

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void CopyCheckpoint(const std::string& from, int64_t step, const std::string& to) {
  const std::string name = fmt::format("step-{:08}", step);
  fs::create_directories(to);
  fs::copy(from + "/" + name, to + "/" + name, fs::copy_options::recursive);
}

}  // namespace launch
