// Values of the store, which ranks write and read back: whoever reads one that no rank of this
// program can have written says so, and doesn't guess.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// Throws CollectiveError: "the store's key 'members' holds what no rank has written: '+3 foo'".
[[noreturn]] void ThrowIllegible(const std::string& key, const std::string& value);

// The number that `digits` are in this base, from 0 to `max`; nothing when they are anything else.
std::optional<int> ParseNumber(std::string_view digits, int max, int base = 10);

// "1 2"; "none" when there are none.
std::string EncodeRanks(const std::vector<int>& ranks);

// Throws as above unless the value is some ranks of a world of `size`, in order.
std::vector<int> DecodeRanks(const std::string& key, const std::string& value, int size);

}  // namespace ddp
