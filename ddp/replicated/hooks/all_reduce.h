// The hook that others come down to in the end: a plain all-reduce; and what hooks have in common.
#pragma once

#include <memory>
#include <string_view>

#include "ddp/replicated/communication_hook.h"

namespace ddp {

// Adds the gradients up as they are. A rank sends 2 (ranks - 1) / ranks times the bucket's bytes.
std::shared_ptr<Work> AllReduceGradients(ProcessGroup& group, const GradientBucket& bucket);

// Throws std::invalid_argument, with the name of the hook and what came, unless the gradients are
// floating point numbers in CPU memory.
void CheckGradients(std::string_view hook, const GradientBucket& bucket);

// Work with nothing left to do.
std::shared_ptr<Work> DoneWork();

}  // namespace ddp
