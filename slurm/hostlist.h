// Slurm's node lists, "node[01-03,7],login1", as the names that they stand for, and back.
//
//   ExpandHostlist("node[01-03,7]")                     // node01 node02 node03 node7
//   CompressHostlist({"node01", "node02", "login1"})    // "node[01-02],login1"
//
//   list   = item, separator, item, ...      a separator is a comma, blank, tab or newline;
//                                            empty items count for nothing
//   item   = text with any number of [ranges]
//   ranges = range, ",", range, ...          a range is a number, or low-high with low <= high
//
// Numbers are as wide as their range's low end: [8-10] is 8, 9, 10, and [08-10] is 08, 09, 10.
// Order and duplicates stay. A dash outside brackets is text: node1-3 is one host.
//
// With several brackets the last runs fastest, and the others slower from left to right:
// a[1-2]b[3-4] is a1b3 a1b4 a2b3 a2b4, and a[1-2]b[3-4]c[5] is a1b3c5 a2b3c5 a1b4c5 a2b4c5.
//
// Stricter than Slurm, which takes some typing errors for names: see testdata/hostlists.tsv. Lists
// of multi-dimensional clusters, [000x133], and functions, feature{...}, are refused, too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace slurm {

// A range has at most so many numbers, as in Slurm, and a list so many hosts.
inline constexpr size_t kMaxHostsPerRange = size_t{1} << 16;
inline constexpr size_t kMaxHosts = size_t{1} << 18;

// The hosts of `list`; none for an empty one. Throws std::invalid_argument with the list and what
// is wrong with it. A list of too many hosts is refused before any of them is made.
std::vector<std::string> ExpandHostlist(std::string_view list);

// A list that expands to `hosts`, in this order. Neighbours that differ in the number at their end
// share brackets, as Slurm writes them. Throws std::invalid_argument for what is no name of a host:
// an empty text, or one with a separator, bracket or brace.
std::string CompressHostlist(const std::vector<std::string>& hosts);

}  // namespace slurm
