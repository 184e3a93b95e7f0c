// `run_ranks N COMMAND...`: runs a program on N ranks of this machine, which meet at a store here.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "ddp/store/tcp_store_server.h"
#include "launch/agent/agent.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: run_ranks N COMMAND...\n");
    return 2;
  }
  const ddp::TcpStoreServer store({.host = "127.0.0.1"});
  launch::AgentOptions options;
  options.command = {argv + 2, argv + argc};
  options.num_ranks = std::atoi(argv[1]);
  options.master_port = store.port();
  const launch::AgentResult result = launch::RunAgent(options);
  if (result.exit_code != 0) fmt::print(stderr, "{}\n", result.reason);
  return result.exit_code;
}
