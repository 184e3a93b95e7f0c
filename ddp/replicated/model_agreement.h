// What ranks must agree on before they train one model together.
#pragma once

#include <span>
#include <string>

#include "ddp/collectives/process_group.h"
#include "ops/nn/module.h"

namespace ddp {

// Throws MismatchError, the same on every rank, unless all ranks have the same parameters and
// buffers, in the same order: names, shapes, dtypes, and which are frozen; and the same `settings`,
// one line of text. The message has the first entry that differs, with the ranks of each version.
void RequireSameModel(ProcessGroup& group, const ops::nn::Module& model,
                      const std::string& settings);

// Overwrites every rank's tensors with rank `root`'s.
void BroadcastFrom(ProcessGroup& group, int root, std::span<const ops::NamedTensor> tensors);

}  // namespace ddp
