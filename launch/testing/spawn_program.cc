// A program for spawn_test: `spawn_program MODE [RANK]` runs two ranks that do what MODE says, the
// odd thing on RANK (1 by default).
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>

#include "ddp/errors.h"
#include "launch/spawn.h"

namespace {

using Store = std::shared_ptr<ddp::Store>;

// Ranks that are not the odd one wait for it in vain.
void WaitForNothing(const Store& store) { store->Get("never"); }

[[noreturn]] void Exit(int code) { std::_Exit(code); }

const std::map<std::string, void (*)()>& Oddities() {
  static const std::map<std::string, void (*)()> oddities = {
      {"throw", [] { throw std::runtime_error("boom,\nin two lines\n"); }},
      {"throw_int", [] { throw 42; }},
      {"lose_peer", [] { throw ddp::PeerLostError("lost rank 0: connection closed", 0); }},
      {"segv", [] { std::raise(SIGSEGV); }},
      {"exit", [] { Exit(5); }},
  };
  return oddities;
}

void Greet(int rank, int world_size, const Store& store, const std::string& more = "") {
  store->Set(fmt::format("greeting/{}", rank), fmt::format("hello from {}{}", rank, more));
  for (int peer = 0; peer < world_size; ++peer) {
    fmt::print("rank {} of {}: {}\n", rank, world_size,
               store->Get(fmt::format("greeting/{}", peer)));
  }
}

// The odd one throws in the first attempt that an agent makes.
void GreetThenThrowOnce(int rank, int world_size, const Store& store, bool is_odd) {
  const std::string attempt = std::getenv("DDP_RESTART_COUNT");
  if (store->Check({fmt::format("greeting/{}", rank)})) throw std::runtime_error("was here before");
  Greet(rank, world_size, store, " in attempt " + attempt);
  if (attempt == "0" && is_odd) Oddities().at("throw")();
  if (attempt == "0") WaitForNothing(store);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "greet";
  const int odd = argc > 2 ? std::atoi(argv[2]) : 1;
  const auto body = [&](int rank, int world_size, Store store) {
    if (mode == "greet") return Greet(rank, world_size, store);
    if (mode == "greet_then_throw_once") {
      return GreetThenThrowOnce(rank, world_size, store, rank == odd);
    }
    if (rank == odd) return Oddities().at(mode)();
    WaitForNothing(store);
  };
  const int code = launch::Spawn(body);
  fmt::print("launcher: {}\n", code);
  return code;
}
