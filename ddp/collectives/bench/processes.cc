#include "ddp/collectives/bench/processes.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <system_error>

#include "ddp/store/tcp_store_server.h"

namespace ddp::bench {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

using Variables = std::map<std::string, std::string>;

// What Open MPI needs on a machine of one's own: to be run by anyone, with more ranks than cores,
// and not to tie ranks to cores.
const Variables kMpirunVariables = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                    {"OMPI_MCA_hwloc_base_binding_policy", "none"}};

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// `variables` on top of this process's environment.
pid_t Start(std::vector<std::string> command, const Variables& variables) {
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!variables.contains(text.substr(0, text.find('=')))) environment.push_back(text);
  }
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, command[0].c_str(), nullptr, nullptr,
                                 Pointers(command).data(), Pointers(environment).data());
  if (error != 0) throw std::system_error(error, std::generic_category(), command[0]);
  return pid;
}

// Whether all processes ended well.
bool Await(std::vector<pid_t> pids) {
  bool all_well = true;
  while (!pids.empty()) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (ended < 0) throw std::system_error(errno, std::generic_category(), "waiting for ranks");
    std::erase(pids, ended);
    if (status == 0) continue;
    all_well = false;
    for (const pid_t pid : pids) kill(pid, SIGTERM);
  }
  return all_well;
}

}  // namespace

std::optional<MeetingPlace> OwnPlace() {
  if (std::getenv("MASTER_PORT") == nullptr) return std::nullopt;
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // nobody reads what a rank measures when its starter is gone
  return MeetingPlaceFrom(ProcessEnvironment());
}

bool RunRanks(const std::vector<std::string>& arguments, int num_ranks, bool through_mpirun) {
  const TcpStoreServer server({.host = kLoopback});
  Variables variables = {{"MASTER_ADDR", kLoopback},
                         {"MASTER_PORT", std::to_string(server.port())}};
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (through_mpirun) {
    variables.insert(kMpirunVariables.begin(), kMpirunVariables.end());
    command.insert(command.begin(), {"mpirun", "-np", std::to_string(num_ranks)});
    return Await({Start(command, variables)});
  }
  std::vector<pid_t> pids;
  variables["WORLD_SIZE"] = std::to_string(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    variables["RANK"] = std::to_string(rank);
    pids.push_back(Start(command, variables));
  }
  return Await(pids);
}

}  // namespace ddp::bench
