#include "launch/agent/process_tree.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <thread>

#include "launch/agent/file_descriptor.h"
#include "launch/agent/process_table.h"

namespace launch {
namespace {

// Between two looks: the kernel takes a moment to end a process.
constexpr auto kPause = std::chrono::milliseconds(1);

// Kills `pid` if it is still the child of `parent`: its number may be another's by now.
void Kill(pid_t pid, pid_t parent) {
  const FileDescriptor handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!handle.is_open() || ParentOf(pid) != parent) return;
  syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0);
}

}  // namespace

ProcessTree::ProcessTree() {
  prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const Member& member : Members()) strangers_.insert(member.pid);
}

ProcessTree::~ProcessTree() { prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_); }

// One look is no picture of a moment. But a child of this process stays until it is reaped, here,
// and only from such children can new ones come: who sees none, not even a zombie, has seen all.
std::vector<ProcessTree::Member> ProcessTree::Members() const {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t pid : AllProcesses()) {
    if (const auto parent = ParentOf(pid)) children.emplace(*parent, pid);
  }
  std::vector<Member> members;
  std::vector<pid_t> parents = {getpid()};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      if (strangers_.count(child->second) > 0) continue;
      members.push_back({child->second, parent});
      parents.push_back(child->second);
    }
  }
  return members;
}

bool ProcessTree::End(std::chrono::milliseconds patience) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const std::vector<Member> members = Members();
    if (members.empty()) return true;
    for (const auto& [pid, parent] : members) Kill(pid, parent);
    for (const auto& [pid, parent] : members) waitpid(pid, nullptr, WNOHANG);
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace launch
