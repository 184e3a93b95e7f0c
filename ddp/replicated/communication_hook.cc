#include "ddp/replicated/communication_hook.h"

#include <exception>
#include <mutex>
#include <utility>

namespace ddp {
namespace {

class ChainedWork : public Work {
 public:
  ChainedWork(std::shared_ptr<Work> first, std::function<void()> next)
      : first_(std::move(first)), next_(std::move(next)) {}

  void Wait() override {
    first_->Wait();
    std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    if (!next_) return;
    try {
      std::exchange(next_, nullptr)();
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
  }

  bool IsDone() override {
    std::lock_guard lock(mutex_);
    return !next_;
  }

 private:
  const std::shared_ptr<Work> first_;
  std::mutex mutex_;
  std::function<void()> next_;  // null when it has been called; guarded by mutex_
  std::exception_ptr error_;    // guarded by mutex_
};

}  // namespace

std::shared_ptr<Work> Then(std::shared_ptr<Work> first, std::function<void()> next) {
  return std::make_shared<ChainedWork>(std::move(first), std::move(next));
}

}  // namespace ddp
