#include "tests/slurm/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "launch/testing/subprocess.h"

namespace slurm {
namespace {

using namespace std::chrono_literals;

constexpr auto kDeadline = 90s;

bool IsEnd(const std::string& state) {
  static const std::set<std::string> ends = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT",
                                             "NODE_FAIL"};
  return ends.contains(state);
}

}  // namespace

const Words kTwoByTwo = {"--nodes=2", "--ntasks-per-node=2"};

Words operator+(Words one, const Words& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

std::string AbsolutePath(const std::string& path) { return std::filesystem::absolute(path); }

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string OutputOf(const Words& command, const std::map<std::string, std::string>& environment) {
  launch::ProgramOutput output = launch::RunProgram(command, environment);
  if (output.exit_code != 0) {
    throw std::runtime_error(fmt::format("{}: exit code {}\n{}{}", fmt::join(command, " "),
                                         output.exit_code, output.out, output.err));
  }
  while (!output.out.empty() && output.out.back() == '\n') output.out.pop_back();
  return output.out;
}

std::string Host(const std::string& action, const std::string& node, const Words& more) {
  return OutputOf(Words{"tests/hosts/host.sh", action, node} + more);
}

Job Job::Submit(const Words& flags, const Words& script,
                const std::map<std::string, std::string>& environment) {
  static int number = 0;
  const std::string directory = fmt::format("{}/job{}", testing::TempDir(), number++);
  std::filesystem::create_directory(directory);
  const Words command =
      Words{"sbatch", "--parsable", "--chdir=" + directory, "--output=%x-%j.out"} + flags + script;
  const std::string id = OutputOf(command, environment);
  return Job(id, directory, fmt::format("{}/ddp-{}.out", directory, id));
}

Job Job::SubmitProgram(const std::string& program, const Words& flags, const Words& arguments) {
  return Submit(flags, Words{"slurm/ddp_job.sh"} + arguments,
                {{"DDP_PROGRAM", AbsolutePath(program)}});
}

Job Job::Element(int index) const {
  Job element(fmt::format("{}_{}", id_, index), directory_, "");
  element.log_ = fmt::format("{}/ddp-{}.out", directory_, element.Property("JobId"));
  return element;
}

std::string Job::Log() const { return ReadFile(log_); }

std::string Job::State() const {
  return OutputOf({"squeue", "--noheader", "--states=all", "--jobs=" + id_, "--format=%T"});
}

std::string Job::Property(const std::string& name) const {
  std::istringstream properties(OutputOf({"scontrol", "--oneliner", "show", "job", id_}));
  for (std::string property; properties >> property;) {
    if (property.rfind(name + "=", 0) == 0) return property.substr(name.size() + 1);
  }
  throw std::runtime_error(fmt::format("job {} has no {}", id_, name));
}

void Job::AwaitState(const std::string& state) const {
  Await(state, [&] { return State() == state; });
}

std::string Job::AwaitLine(const std::string& text) const {
  std::string line;
  Await(fmt::format("'{}'", text), [&] {
    std::ifstream log(log_);
    while (std::getline(log, line)) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  });
  return line;
}

std::string Job::AwaitEnd() const {
  std::string state;
  Await("the end", [&] { return IsEnd(state = State()); });
  return state + " " + Property("ExitCode");
}

void Job::AskToStop() const { OutputOf({"scancel", "--signal=USR1", "--batch", id_}); }

void Job::LetRestart() const {
  AwaitState("PENDING");
  // Not at once: Slurm 22.05 fails jobs that start in the second in which they ended.
  OutputOf({"scontrol", "update", "JobId=" + id_, "StartTime=now+2"});
}

void Job::Await(const std::string& what, const std::function<bool()>& condition) const {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  for (;;) {
    const bool nothing_more_comes = IsEnd(State()) || std::chrono::steady_clock::now() > deadline;
    if (condition()) return;
    if (nothing_more_comes) {
      throw std::runtime_error(
          fmt::format("job {}, {}: {} didn't come; its log:\n{}", id_, State(), what, Log()));
    }
    std::this_thread::sleep_for(50ms);
  }
}

}  // namespace slurm
