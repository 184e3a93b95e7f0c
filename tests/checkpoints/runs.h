// Runs of the trainer, for tests of what they leave and of what they go on from.
#pragma once

#include <string>
#include <vector>

#include "launch/testing/subprocess.h"

namespace launch {

using Arguments = std::vector<std::string>;

Arguments operator+(Arguments one, const Arguments& other);

// The trainer with these flags.
ProgramOutput Train(const Arguments& flags);

// A path in the test's own folder, of which nothing is there.
std::string NewPath(const std::string& name);

std::string Read(const std::string& path);

// Copies the checkpoint of this step from one folder into another, a new one.
void CopyCheckpoint(const std::string& from, int64_t step, const std::string& to);

}  // namespace launch
