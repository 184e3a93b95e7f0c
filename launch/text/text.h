// Numbers and names as people read them, said one way everywhere.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace launch {

// "812 B", "61 MB", "1.4 GB": powers of 1000, three digits at most.
std::string FormatBytes(int64_t num_bytes);

// "0.4s", "5s", "2m05s", "3h20m"; "?" for what isn't finite.
std::string FormatSeconds(double seconds);

// "1 rank", "2 ranks".
std::string FormatCount(int64_t count, std::string_view noun);

// "unknown model 'mpl'; did you mean 'mlp'? Known: linear, mlp". Only a near name is suggested.
std::string UnknownName(std::string_view what, std::string_view name,
                        const std::vector<std::string>& known);

// Returns what `read` returns, and puts the flag before what it throws: "--model=mpl: unknown ...".
template <class Read>
auto NamingFlag(const char* flag, const std::string& value, Read read) {
  try {
    return read();
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument("--" + std::string(flag) + "=" + value + ": " + e.what());
  }
}

}  // namespace launch
