// For tests of checkpoints: directories of their own, made-up contents, and damage.
#pragma once

#include <string>

#include "ddp/checkpoint/checkpoint.h"

namespace ddp {

// An empty directory for the running test, under this name.
std::string NewDirectory(const std::string& name);

// A checkpoint of this step with two groups of tensors, `num_elements` each, that depend on it.
Checkpoint CheckpointOf(int64_t step, int64_t num_elements = 100);

// Fails the test unless both hold the same bits.
void ExpectSame(const Checkpoint& one, const Checkpoint& other);

// Changes one bit of a file, its `place`th byte, counted from the end where it is negative.
void FlipBit(const std::string& path, int64_t place);

}  // namespace ddp
