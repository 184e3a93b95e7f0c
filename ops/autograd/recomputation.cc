#include "ops/autograd/recomputation.h"

#include <stdexcept>
#include <utility>

namespace ops {
namespace {

thread_local ScopedRun* current_run = nullptr;

}  // namespace

ScopedRun::ScopedRun(Time time, std::vector<uint64_t>& drawn)
    : time_(time), drawn_(drawn), outer_(std::exchange(current_run, this)) {}

ScopedRun::~ScopedRun() { current_run = outer_; }

uint64_t ScopedRun::Draw(ScopedRun* run, absl::FunctionRef<uint64_t()> draw) {
  if (run == nullptr) return draw();
  if (run->time_ == Time::kFirst) return run->drawn_.emplace_back(Draw(run->outer_, draw));
  if (run->next_ < run->drawn_.size()) return run->drawn_[run->next_++];
  throw std::logic_error(
      "Checkpoint: the function's second run draws more random numbers than the first; it must do "
      "the same each time");
}

bool IsRecomputing() {
  for (const ScopedRun* run = current_run; run != nullptr; run = run->outer_) {
    if (run->time_ == ScopedRun::Time::kSecond) return true;
  }
  return false;
}

uint64_t DrawOnce(absl::FunctionRef<uint64_t()> draw) { return ScopedRun::Draw(current_run, draw); }

}  // namespace ops
