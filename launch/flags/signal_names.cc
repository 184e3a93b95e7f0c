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

}  // namespace launch
