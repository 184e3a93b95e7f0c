#include "launch/agent/agent.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "launch/agent/affinity.h"
#include "launch/agent/error_file.h"
#include "launch/agent/guardian.h"
#include "launch/agent/node_agent.h"
#include "launch/agent/solo_rendezvous.h"
#include "launch/agent/terminal.h"

namespace launch {
namespace {

// Each rank takes four descriptors here, and a few in each other rank, which inherits the limit:
// hundreds of ranks need more than the customary 1024. Not all that may be had, as there are
// programs that go through every possible descriptor.
void AllowDescriptorsFor(int num_ranks) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t needed = 256 + 16 * static_cast<rlim_t>(num_ranks);
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(needed, limit.rlim_max));
  setrlimit(RLIMIT_NOFILE, &limit);
}

void Validate(const AgentOptions& options) {
  if (options.num_ranks < 1) {
    throw std::invalid_argument(
        fmt::format("number of ranks: {}; at least 1 is needed", options.num_ranks));
  }
  if (options.command.empty()) throw std::invalid_argument("no command for the ranks to run");
}

void Say(const std::string& line) { fmt::print(stderr, "{}{}\n", LineStart(STDERR_FILENO), line); }

// Told, as programs look for it: a file that can't be written changes nothing else.
void TryToWriteErrorFile(const std::string& path, const Verdict& verdict) {
  try {
    WriteErrorFile(path, verdict);
  } catch (const std::system_error& error) {
    Say(error.what());
  }
}

}  // namespace

AgentResult RunAgent(const AgentOptions& options) {
  Validate(options);
  AllowDescriptorsFor(options.num_ranks);
  if (!options.log_dir.empty()) {
    std::filesystem::create_directories(options.log_dir);
    Say("what each rank prints is also in " + std::filesystem::absolute(options.log_dir).string());
  }
  if (const auto warning = OneCpuWarning(AvailableCpus(), options.num_ranks)) Say(*warning);
  if (!options.error_file.empty()) std::filesystem::remove(options.error_file);

  const Guardian guardian;
  SoloRendezvous rendezvous(options.num_ranks, guardian.mark(), options.restarts);
  const Verdict verdict = NodeAgent(options, guardian.mark(), &rendezvous).Run();
  if (!options.error_file.empty() && verdict.failed()) {
    TryToWriteErrorFile(options.error_file, verdict);
  }
  return {verdict.exit_code, verdict.reason};
}

}  // namespace launch
