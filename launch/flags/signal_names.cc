#include "launch/flags/signal_names.h"

#include <csignal>
#include <cstring>
#include <stdexcept>

#include "launch/text/text.h"

namespace launch {
namespace {

int ParseSignal(const std::string& text) {
  const std::string name = text.starts_with("SIG") ? text.substr(3) : text;
  for (int signal = 1; signal < NSIG; ++signal) {
    const char* const abbreviation = sigabbrev_np(signal);
    if (abbreviation == nullptr || signal == SIGKILL || signal == SIGSTOP) continue;
    if (name == abbreviation || name == std::to_string(signal)) return signal;
  }
  throw std::invalid_argument("expected a signal that can be caught, such as USR1");
}

}  // namespace

int ParseStopSignal(const std::string& text) {
  return NamingFlag("stop_signal", text, [&] {
    const int signal = ParseSignal(text);
    if (signal == SIGUSR2) {
      throw std::invalid_argument("expected another one, as USR2 asks ranks for flight records");
    }
    return signal;
  });
}

}  // namespace launch
