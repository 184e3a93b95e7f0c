#include "ddp/store/store.h"

#include <fmt/format.h>

namespace ddp {

void ThrowMissingKeys(const std::vector<std::string>& missing, Duration timeout) {
  const bool one = missing.size() == 1;
  throw TimeoutError(fmt::format("{} '{}' {} not set within {}", one ? "key" : "keys",
                                 fmt::join(missing, "', '"), one ? "was" : "were",
                                 FormatSeconds(timeout)));
}

}  // namespace ddp
