// What ranks must agree on before they work together, as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ddp/collectives/process_group.h"

namespace ddp {

// Throws MismatchError, the same on every rank, unless all ranks gave the same lines. The message
// has the first that differs, with the ranks of each version; `subject` is what differs: "the
// ranks' models". Every rank calls it. A line has no line breaks.
void RequireSameLines(ProcessGroup& group, const std::vector<std::string>& mine,
                      std::string_view subject);

// "'a', 'b'"; of more than ten names the first ones, and how many are left out.
std::string ListNames(const std::vector<std::string>& names);

}  // namespace ddp
