#include "launch/flags/signal_names.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <stdexcept>

namespace launch {

int ParseSignal(const std::string& text) {
  const std::string name = text.starts_with("SIG") ? text.substr(3) : text;
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* const abbreviation = sigabbrev_np(signal);
    if (abbreviation == nullptr || signal == SIGKILL || signal == SIGSTOP) continue;
    if (name == abbreviation || name == std::to_string(signal)) return signal;
  }
  throw std::invalid_argument(
      fmt::format("'{}': expected a signal that can be caught, such as USR1", text));
}

int ParseStopSignal(const std::string& text) {
  int signal = 0;
  try {
    signal = ParseSignal(text);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("--stop_signal={}", error.what()));
  }
  if (signal == SIGUSR2) {
    throw std::invalid_argument(
        "--stop_signal=USR2: expected another one, as USR2 asks ranks for their flight records");
  }
  return signal;
}

}  // namespace launch
