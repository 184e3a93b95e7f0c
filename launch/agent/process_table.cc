#include "launch/agent/process_table.h"

#include <dirent.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>

namespace launch {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// Nothing where the process has gone, perhaps in the midst of reading: then read() notes an error,
// which an iterator over the buffer would throw.
std::string Read(pid_t pid, const char* name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
  std::string text;
  char piece[4096];
  while (file.read(piece, sizeof piece), file.gcount() > 0) text.append(piece, file.gcount());
  return text;
}

}  // namespace

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir("/proc"));
  if (!directory) return pids;
  while (const dirent* entry = readdir(directory.get())) {
    if (const pid_t pid = std::atoi(entry->d_name); pid > 0) pids.push_back(pid);
  }
  return pids;
}

std::optional<pid_t> ParentOf(pid_t pid) {
  // "17 (any name, even with a parenthesis) S 4 ...": the parent is 4.
  const std::string text = Read(pid, "stat");
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  pid_t parent = 0;
  if (!(rest >> state >> parent)) return std::nullopt;
  return parent;
}

std::optional<std::string> VariableOf(pid_t pid, const std::string& name) {
  std::istringstream environment(Read(pid, "environ"));
  for (std::string entry; std::getline(environment, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

}  // namespace launch
