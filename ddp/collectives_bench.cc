// Times collectives on this machine, and checks their results.
//
//   bazel run //ddp:collectives_bench -- --nproc=2 --backend=auto,gloo,mpi --sizes=4:64M
//
// Prints a table for each backend, as nccl-tests do. Started by mpirun, torchrun or any launcher
// that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT it is a rank itself, on any hosts.
#include <absl/flags/flag.h>
#include <absl/flags/parse.h>
#include <absl/flags/usage.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/collectives/bench/measure.h"
#include "ddp/collectives/bench/plan.h"
#include "ddp/collectives/bench/processes.h"
#include "ddp/collectives/bench/report.h"
#include "ddp/collectives/process_group.h"
#include "ddp/store/tcp_store.h"

ABSL_FLAG(int, nproc, 2, "number of ranks");
ABSL_FLAG(std::string, backend, "auto", "backends, one after the other: auto,shm,gloo,mpi");
ABSL_FLAG(std::string, sizes, "4:64M", "bytes: FIRST:LAST, times 4 each, or FIRST:LAST:FACTOR");
ABSL_FLAG(std::string, operation, "all_reduce",
          "all_reduce,all_gather,reduce_scatter,broadcast,all_to_all");
ABSL_FLAG(std::string, dtype, "float32", "of the elements");
ABSL_FLAG(std::string, op, "sum", "how values are reduced");
ABSL_FLAG(bool, direct, false, "buffers that the group allocated, where peers reach them");
ABSL_FLAG(double, seconds, 0.3, "for each size, about");
ABSL_FLAG(bool, json, false, "a JSON object a line, no table");

namespace ddp::bench {
namespace {

constexpr Duration kTimeout = std::chrono::minutes(1);

Plan PlanFromFlags() {
  return {.operations = ParseOperations(absl::GetFlag(FLAGS_operation)),
          .sizes = ParseSizes(absl::GetFlag(FLAGS_sizes)),
          .dtype = ParseDType(absl::GetFlag(FLAGS_dtype)),
          .reduce_op = ParseReduceOp(absl::GetFlag(FLAGS_op)),
          .direct = absl::GetFlag(FLAGS_direct),
          .seconds = absl::GetFlag(FLAGS_seconds)};
}

// Returns whether all results were right.
bool RunRank(const MeetingPlace& place, const Plan& plan, const std::string& backend) {
  const auto store = std::make_shared<TcpStore>(place.host, place.port);
  const auto group = InitProcessGroup({.backend = backend,
                                       .rank = place.rank,
                                       .world_size = place.world_size,
                                       .store = store,
                                       .timeout = kTimeout});
  const Setting setting = {backend, place.world_size};
  const bool as_json = absl::GetFlag(FLAGS_json);
  std::optional<OperationKind> table;
  bool all_right = true;
  Measure(*group, plan, [&](const Result& result) {
    if (place.rank != 0) return;
    all_right = all_right && result.num_wrong == 0;
    if (!as_json && table != result.operation) {
      fmt::print("{}", TableHeader(setting, plan, result.operation));
      table = result.operation;
    }
    fmt::print("{}", as_json ? JsonLine(plan, setting, result) : TableRow(plan, setting, result));
    std::fflush(stdout);
  });
  return all_right;
}

bool Run(std::vector<std::string> arguments) {
  const Plan plan = PlanFromFlags();
  const std::vector<std::string> backends = SplitNames(absl::GetFlag(FLAGS_backend));
  if (const auto place = OwnPlace()) return RunRank(*place, plan, backends[0]);
  const int num_ranks = absl::GetFlag(FLAGS_nproc);
  if (num_ranks < 1) {
    throw std::invalid_argument(fmt::format("--nproc={}: at least one rank is needed", num_ranks));
  }
  bool all_well = true;
  arguments.emplace_back();
  for (const std::string& backend : backends) {
    arguments.back() = "--backend=" + backend;
    all_well = RunRanks(arguments, num_ranks, backend == "mpi") && all_well;
  }
  return all_well;
}

}  // namespace
}  // namespace ddp::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("times collectives on this machine and checks their results");
  absl::ParseCommandLine(argc, argv);
  try {
    return ddp::bench::Run({argv + 1, argv + argc}) ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "collectives_bench: {}\n", error.what());
    return 1;
  }
}
