// Results as text: a table like that of nccl-tests, or a JSON object a line.
#pragma once

#include <string>
#include <string_view>

#include "ddp/collectives/bench/measure.h"
#include "ddp/collectives/bench/plan.h"

namespace ddp::bench {

struct Setting {
  std::string_view backend;
  int num_ranks = 1;
};

// The lines above the rows of one operation.
std::string TableHeader(const Setting& setting, const Plan& plan, OperationKind operation);
std::string TableRow(const Plan& plan, const Setting& setting, const Result& result);
// Times in microseconds, bandwidths in 10^9 bytes a second.
std::string JsonLine(const Plan& plan, const Setting& setting, const Result& result);

}  // namespace ddp::bench
