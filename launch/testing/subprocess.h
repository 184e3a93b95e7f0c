// Subprocess: a program under test, run as a user would run it.
//
//   ProgramOutput output = RunProgram({"launch/train", "--help"});
//   EXPECT_EQ(output.exit_code, 0);
//
//   Subprocess agent({"launch/agent/agent_main", "2", "sleep", "60"});
//   agent.Signal(SIGINT);
//   EXPECT_EQ(agent.Wait().exit_code, 130);
//
// Every wait has a deadline, after which the program is killed and std::runtime_error thrown, with
// all that it has printed.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "launch/agent/file_descriptor.h"
#include "launch/agent/process.h"

namespace launch {

struct ProgramOutput {
  int exit_code = 0;  // 128+n for signal n
  std::string out, err;

  std::vector<std::string> out_lines() const;
  // The last line on standard error.
  std::string last_error() const;
};

class Subprocess {
 public:
  // The program's path is relative to the workspace, or absolute.
  explicit Subprocess(std::vector<std::string> command,
                      std::map<std::string, std::string> environment = {});
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  int pid() const { return process_.pid(); }
  void Signal(int signal) { process_.Signal(signal); }
  // Returns once standard output holds `count` lines.
  std::vector<std::string> WaitForLines(size_t count);
  ProgramOutput Wait();

 private:
  // Reads what comes next; returns false when there is nothing more to come.
  bool ReadSome();

  struct Stream {
    FileDescriptor source;
    std::string* text;
  };
  std::vector<std::string> command_;
  ProgramOutput output_;
  std::vector<Stream> streams_;
  Process process_;
  std::chrono::steady_clock::time_point deadline_;
};

ProgramOutput RunProgram(std::vector<std::string> command,
                         std::map<std::string, std::string> environment = {});

// Returns once the process has ended, whoever's child it is. Throws std::runtime_error when it
// lives on.
void WaitForEnd(int pid);

}  // namespace launch
