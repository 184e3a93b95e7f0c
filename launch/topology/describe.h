// An identity for people and for programs to read.
#pragma once

#include <string>

#include "launch/topology/topology.h"

namespace launch {

// A few lines: the place, the reason, where the ranks meet, warnings.
std::string Describe(const Identity& identity);

// "gpu          1 of 2 visible", or why there is none for this rank; empty where it isn't known how
// many there are, or which rank of its machine this is.
std::string DescribeGpu(const Identity& identity, const Environment& environment);

// An object with the members of Identity; what isn't known is null.
std::string IdentityJson(const Identity& identity);

}  // namespace launch
