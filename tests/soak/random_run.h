// Runs a random program twice: on its ranks, which are threads, and on one process with the joined
// batches and without the wrapper.
#pragma once

#include <string>

#include "tests/soak/random_program.h"

namespace ddp::soak {

// What was wrong: "" where, after every step, gradients and weights were the same bits on all ranks
// and one process's within rounding, and where whatever was raised was raised on all ranks. A
// program that hangs ends the process, and prints itself.
std::string WrongIn(const Program& program);

}  // namespace ddp::soak
