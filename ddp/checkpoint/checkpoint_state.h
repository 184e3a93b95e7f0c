// What a checkpoint holds beside its tensors, as text: state.json.
#pragma once

#include <string>

#include "ddp/checkpoint/checkpoint.h"

namespace ddp {

std::string StateText(const Checkpoint& checkpoint);

// The inverse; the result has no tensors. Throws std::invalid_argument for another text.
Checkpoint ParseState(const std::string& text);

}  // namespace ddp
