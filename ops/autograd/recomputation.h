// Functions that run twice: Checkpoint (checkpoint.h) forgets what a function computed and runs it
// again in Backward. For whoever writes a function that isn't the same at each call.
//
//   key.step = DrawOnce([&] { return calls_++; });           // dropout: the second run has the
//                                                            // first one's mask
//   if (!IsRecomputing()) UpdateRunningStatistics(batch);    // batch norm: once
//
// Threads: a run belongs to its thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"

namespace ops {

// Whether this is another run of what has run before: what a function leaves behind, beside its
// output, is there already.
bool IsRecomputing();

// What `draw` returns; in a second run, what it returned in the first, without a call. Throws
// std::logic_error where the first run drew less.
uint64_t DrawOnce(absl::FunctionRef<uint64_t()> draw);

// While one lives, this thread runs a function for the first or the second time. For Checkpoint.
class ScopedRun {
 public:
  enum class Time { kFirst, kSecond };

  // `drawn` is written in the first run and read in the second.
  ScopedRun(Time time, std::vector<uint64_t>& drawn);
  ~ScopedRun();
  ScopedRun(const ScopedRun&) = delete;
  ScopedRun& operator=(const ScopedRun&) = delete;

 private:
  friend bool IsRecomputing();
  friend uint64_t DrawOnce(absl::FunctionRef<uint64_t()> draw);

  // A first run inside a second one, as of a nested checkpoint, draws what is drawn around it.
  static uint64_t Draw(ScopedRun* run, absl::FunctionRef<uint64_t()> draw);

  const Time time_;
  std::vector<uint64_t>& drawn_;
  size_t next_ = 0;  // of `drawn_` in a second run
  ScopedRun* const outer_;
};

}  // namespace ops
