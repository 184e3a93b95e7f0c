// Lines on a terminal that may show a progress bar, which has no line break: the next line is to
// replace it.
#pragma once

#include <unistd.h>

#include <string_view>

namespace launch {

inline constexpr std::string_view kEraseLine = "\r\x1b[K";

// What goes before a line that is written to `fd`: nothing, unless that is a terminal.
inline std::string_view LineStart(int fd) { return isatty(fd) == 1 ? kEraseLine : ""; }

}  // namespace launch
