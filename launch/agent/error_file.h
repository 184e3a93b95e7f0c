// The error file: how a job failed, for programs that look at it afterwards, since exit codes get
// lost on the way (srun returns the highest of all tasks).
//
//   {"exit_code": 3, "reason": "rank 1 failed: exit code 3", "failed_rank": 1, "restarts": 2,
//    "host": "node7", "time": 1700000000, "ranks": [{"rank": 0, "exit_code": 0}, ...]}
//
// A rank also has "reason" where it told one. `exit_code` is 128+n for a rank that signal n ended.
#pragma once

#include <string>

#include "launch/agent/rendezvous.h"

namespace launch {

std::string ErrorFileText(const Verdict& verdict, const std::string& host, int64_t unix_time);

// Writes it as a whole or not at all. Throws std::system_error with the path.
void WriteErrorFile(const std::string& path, const Verdict& verdict);

}  // namespace launch
