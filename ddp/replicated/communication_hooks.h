// The usual communication hooks, and how a flag names them.
//
//   ddp::ChosenHook chosen = ddp::MakeHook("fp16+powersgd:2");
//   ddp::DistributedDataParallel replicated(model, *group, {.hook = chosen.hook});
//   if (chosen.averaging) averager.emplace(model.Parameters(), *group, *chosen.averaging);
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ddp/replicated/communication_hook.h"
#include "ddp/replicated/hooks/all_reduce.h"
#include "ddp/replicated/hooks/compress.h"
#include "ddp/replicated/hooks/local_sgd.h"
#include "ddp/replicated/hooks/power_sgd.h"
#include "ddp/replicated/hooks/quantize.h"
#include "ddp/replicated/hooks/top_k.h"

namespace ddp {

struct ChosenHook {
  CommunicationHook hook;
  // What a PeriodicAverager must do after each step; for `local` only.
  std::optional<PeriodicAveragerOptions> averaging;
  // Whether it carries something over from step to step, each rank its own, which a training that
  // goes on from a checkpoint lacks at first: int8, topk and powersgd.
  bool remembers = false;
};

// none                         a plain all-reduce
// fp16, bf16                   CompressTo
// int8                         QuantizeTo8Bits
// topk[:RATIO]                 TopK, a hundredth unless said otherwise
// powersgd[:RANK[:START]]      PowerSgd, START its first step
// local[:PERIOD[:START]]       LocalSgd from step START (100) on, averaged every PERIOD (4) steps
//
// fp16, bf16, powersgd and local may be put around another with a plus sign: "fp16+powersgd:2",
// "local:8+bf16"; local must be the first. `first_step` is the one that the hook sees first: not 0
// where a training goes on from a checkpoint. Throws std::invalid_argument that lists what there
// is.
ChosenHook MakeHook(std::string_view name, int64_t first_step = 0);

}  // namespace ddp
