// What a process has been given, as data.
#pragma once

#include <string>
#include <vector>

#include "ddp/environment.h"

namespace launch {

struct Ancestor {
  int pid = 0;
  std::string name;  // of the program, "slurmstepd"; its first 15 characters
};

struct Surroundings {
  ddp::Environment environment;
  // The process itself, its parent, and so on.
  std::vector<Ancestor> lineage;
  // The lowest port that the kernel gives to connections.
  int first_ephemeral_port = 32768;
};

// The one that calls, from /proc; what can't be read there is left as above.
Surroundings OwnSurroundings();

}  // namespace launch
