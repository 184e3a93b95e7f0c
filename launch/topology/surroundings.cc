#include "launch/topology/surroundings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>

namespace launch {
namespace {

// Reads the name of `ancestor`; returns its parent's pid, 0 where there is none.
int ReadStatus(Ancestor* ancestor) {
  // "12 (name) S 3 ...": the name may hold anything, parentheses, too.
  std::ifstream file(fmt::format("/proc/{}/stat", ancestor->pid));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t begin = text.find('('), end = text.rfind(')');
  if (begin == std::string::npos || end == std::string::npos) return 0;
  ancestor->name = text.substr(begin + 1, end - begin - 1);
  std::istringstream rest(text.substr(end + 1));
  std::string state;
  int parent = 0;
  rest >> state >> parent;
  return parent;
}

}  // namespace

Surroundings OwnSurroundings() {
  Surroundings surroundings;
  surroundings.environment = ddp::ProcessEnvironment();
  for (int pid = getpid(); pid > 0;) {
    Ancestor& ancestor = surroundings.lineage.emplace_back(Ancestor{pid, ""});
    pid = ReadStatus(&ancestor);
  }
  int port = 0;
  if (std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> port && port > 0) {
    surroundings.first_ephemeral_port = port;
  }
  return surroundings;
}

}  // namespace launch
