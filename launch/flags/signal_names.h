// Signals by name, for flags.
#pragma once

#include <string>

namespace launch {

// "USR1", "SIGUSR1" and "10" are all 10. Throws std::invalid_argument for anything else than a
// signal that a program can catch.
int ParseSignal(const std::string& text);

// The value of --stop_signal. Throws std::invalid_argument, with the flag, also for USR2.
int ParseStopSignal(const std::string& text);

}  // namespace launch
