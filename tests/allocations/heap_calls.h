// Counts calls of the heap, of all threads, by who made them: this program, or a library that it
// loaded (oneDNN, OpenBLAS). heap_calls.cc takes the place of malloc and operator new in a binary
// that links it; it isn't for sanitizer builds, which do the same.
//
//   HeapCalls calls;
//   Step();
//   EXPECT_EQ(calls.ours(), 0) << calls.Describe();
#pragma once

#include <cstdint>
#include <string>

namespace allocations {

class HeapCalls {
 public:
  // Counting begins, and ends with the scope. One at a time.
  HeapCalls();
  ~HeapCalls();
  HeapCalls(const HeapCalls&) = delete;
  HeapCalls& operator=(const HeapCalls&) = delete;

  // By this program and what its own code calls in the C and C++ libraries.
  int64_t ours() const;
  // The calls of each loaded library, "libdnnl.so.2 135", and places of ours, for addr2line.
  std::string Describe() const;
};

}  // namespace allocations
