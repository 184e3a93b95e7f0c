#include "ddp/collectives/bench/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace ddp::bench {
namespace {

constexpr double kMicro = 1e6;  // microseconds in a second
constexpr double kGiga = 1e9;

// Of the header; as wide as those of TableRow.
constexpr char kColumns[] = "#{:>11} {:>12} {:>9} {:>8} {:>12} {:>9} {:>9} {:>12} {:>8}\n";

std::string_view ReduceOpOf(const Plan& plan, OperationKind operation) {
  return Reduces(operation) ? Name(plan.reduce_op) : "none";
}

}  // namespace

std::string TableHeader(const Setting& setting, const Plan& plan, OperationKind operation) {
  return fmt::format("# {}: {}, {} ranks, {} buffers\n", Name(operation), setting.backend,
                     setting.num_ranks, plan.direct ? "direct" : "staged") +
         fmt::format(kColumns, "size", "count", "type", "redop", "time", "algbw", "busbw", "cpu",
                     "#wrong") +
         fmt::format(kColumns, "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)", "(us)", "");
}

std::string TableRow(const Plan& plan, const Setting& setting, const Result& result) {
  return fmt::format("{:>12} {:>12} {:>9} {:>8} {:>12.2f} {:>9.3f} {:>9.3f} {:>12.2f} {:>8}\n",
                     result.num_bytes, result.num_elements, Name(plan.dtype),
                     ReduceOpOf(plan, result.operation), result.median_seconds * kMicro,
                     result.algorithm_bandwidth() / kGiga,
                     result.bus_bandwidth(setting.num_ranks) / kGiga, result.cpu_seconds * kMicro,
                     result.num_wrong);
}

std::string JsonLine(const Plan& plan, const Setting& setting, const Result& result) {
  const nlohmann::ordered_json json = {
      {"operation", Name(result.operation)},
      {"backend", setting.backend},
      {"ranks", setting.num_ranks},
      {"buffers", plan.direct ? "direct" : "staged"},
      {"bytes", result.num_bytes},
      {"elements", result.num_elements},
      {"dtype", Name(plan.dtype)},
      {"reduce_op", ReduceOpOf(plan, result.operation)},
      {"runs", result.num_runs},
      {"us_median", result.median_seconds * kMicro},
      {"us_min", result.min_seconds * kMicro},
      {"us_p90", result.p90_seconds * kMicro},
      {"algorithm_bandwidth", result.algorithm_bandwidth() / kGiga},
      {"bus_bandwidth", result.bus_bandwidth(setting.num_ranks) / kGiga},
      {"us_cpu_all_ranks", result.cpu_seconds * kMicro},
      {"wrong", result.num_wrong}};
  return json.dump() + "\n";
}

}  // namespace ddp::bench
