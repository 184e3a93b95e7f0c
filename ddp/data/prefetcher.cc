#include "ddp/data/prefetcher.h"

#include <chrono>
#include <utility>

namespace ddp {
namespace {

constexpr int64_t kGroupBytes = 64 << 10;
constexpr auto kGroupTime = std::chrono::microseconds(50);

int64_t BytesOf(const Batch& batch) {
  constexpr int64_t kOverhead = 512;  // of the tensors themselves, so that empty ones count too
  int64_t bytes = kOverhead;
  for (const ops::Tensor* tensor : {&batch.inputs, &batch.targets}) {
    if (tensor->defined()) bytes += tensor->num_bytes();
  }
  return bytes;
}

}  // namespace

Prefetcher::Prefetcher(BatchMaker maker, int64_t first_epoch, int max_groups)
    : max_groups_(max_groups),
      maker_(std::move(maker)),
      epoch_(first_epoch),
      first_wanted_epoch_(first_epoch),
      taking_epoch_(first_epoch),
      thread_([this] { Run(); }) {}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_room_.notify_one();
  thread_.join();
}

std::optional<Batch> Prefetcher::Take(int64_t epoch) {
  if (epoch != taking_epoch_) {
    taking_epoch_ = epoch;
    first_wanted_epoch_.store(epoch, std::memory_order_relaxed);
  }
  Made* made = Next();
  while (made != nullptr && made->epoch < epoch) made = Next();
  if (made == nullptr) return std::nullopt;
  if (made->error) std::rethrow_exception(std::exchange(made->error, nullptr));
  return std::move(made->batch);
}

void Prefetcher::LimitWaits(Duration limit) {
  {
    std::lock_guard lock(mutex_);
    wait_limit_ = limit;
  }
  has_group_.notify_one();
}

Duration Prefetcher::wait_limit() const {
  std::lock_guard lock(mutex_);
  return wait_limit_;
}

Prefetcher::Made* Prefetcher::Next() {
  if (next_ == taken_.size() && !TakeGroup()) return nullptr;
  return &taken_[next_++];
}

bool Prefetcher::TakeGroup() {
  taken_.clear();
  next_ = 0;
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    if (ready_.empty() && !WaitForGroup(lock)) return false;
    taken_ = std::move(ready_.front());
    ready_.pop_front();
    wake = static_cast<int>(ready_.size()) == max_groups_ / 2;
  }
  if (wake) has_room_.notify_one();
  return true;
}

bool Prefetcher::WaitForGroup(std::unique_lock<std::mutex>& lock) {
  const auto start = Clock::now();
  while (ready_.empty() && Clock::now() - start < wait_limit_) {
    // The limit may change meanwhile.
    has_group_.wait_until(lock, start + ClampTimeout(wait_limit_));
  }
  wait_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  return !ready_.empty();
}

void Prefetcher::Run() {
  while (HandOver(MakeGroup())) {
  }
}

Prefetcher::Group Prefetcher::MakeGroup() {
  Group group;
  int64_t bytes = 0;
  const auto start = Clock::now();
  do {
    group.push_back(MakeOne());
    bytes += BytesOf(group.back().batch);
  } while (bytes < kGroupBytes && Clock::now() - start < kGroupTime &&
           !stopping_.load(std::memory_order_relaxed));
  return group;
}

Prefetcher::Made Prefetcher::MakeOne() {
  const int64_t wanted = first_wanted_epoch_.load(std::memory_order_relaxed);
  if (epoch_ < wanted) {
    epoch_ = wanted;
    index_ = 0;
  }
  while (index_ >= maker_.num_batches(epoch_)) {
    ++epoch_;
    index_ = 0;
  }
  Made made{.epoch = epoch_, .batch = {}, .error = nullptr};
  try {
    made.batch = maker_.Make(epoch_, index_++);
  } catch (...) {
    made.error = std::current_exception();
  }
  return made;
}

bool Prefetcher::HandOver(Group group) {
  std::unique_lock lock(mutex_);
  ready_.push_back(std::move(group));
  has_group_.notify_one();
  if (static_cast<int>(ready_.size()) >= max_groups_) {
    has_room_.wait(lock,
                   [&] { return stopping_ || static_cast<int>(ready_.size()) <= max_groups_ / 2; });
  }
  return !stopping_;
}

}  // namespace ddp
