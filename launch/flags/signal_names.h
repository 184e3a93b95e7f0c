// Signals by name, for flags.
#pragma once

#include <string>

namespace launch {

// The value of --stop_signal: "USR1", "SIGUSR1" and "10" are all 10. Throws std::invalid_argument,
// with the flag, for what is no signal that a program can catch, and for USR2.
int ParseStopSignal(const std::string& text);

}  // namespace launch
