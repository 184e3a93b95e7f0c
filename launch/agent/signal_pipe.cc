#include "launch/agent/signal_pipe.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ranges>
#include <stdexcept>

namespace launch {
namespace {

// A handler has no other way to reach the object.
std::atomic<int> signal_pipe = -1;

// Signals are below 65; this one more bit says that the kernel sent it.
constexpr unsigned char kFromKernel = 0x80;

void WriteSignalToPipe(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  const auto byte = static_cast<unsigned char>(signal | (info->si_code > 0 ? kFromKernel : 0));
  // A full pipe already holds more signals than will ever be needed.
  [[maybe_unused]] const ssize_t written = write(signal_pipe.load(), &byte, 1);
  errno = saved_errno;
}

}  // namespace

SignalPipe::SignalPipe(const std::vector<int>& signals) : pipe_(MakePipe()) {
  SetNonBlocking(pipe_.read_end);
  SetNonBlocking(pipe_.write_end);
  int none = -1;
  if (!signal_pipe.compare_exchange_strong(none, pipe_.write_end.get())) {
    throw std::logic_error("SignalPipe: one object may live at a time");
  }
  for (const int signal : signals) {
    struct sigaction previous;
    sigaction(signal, nullptr, &previous);
    if (previous.sa_handler == SIG_IGN && signal != SIGUSR2) continue;
    struct sigaction action = {};
    action.sa_sigaction = WriteSignalToPipe;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    sigaction(signal, &action, nullptr);
    previous_.emplace_back(signal, previous);
  }
}

SignalPipe::~SignalPipe() {
  // Backwards: what came before the second handler of one signal is the first.
  for (const auto& [signal, previous] : previous_ | std::views::reverse) {
    sigaction(signal, &previous, nullptr);
  }
  signal_pipe = -1;
}

std::optional<ReceivedSignal> SignalPipe::Take() {
  unsigned char byte = 0;
  if (read(fd(), &byte, 1) != 1) return std::nullopt;
  return ReceivedSignal{byte & ~kFromKernel, (byte & kFromKernel) != 0};
}

}  // namespace launch
