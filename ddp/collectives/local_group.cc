#include "ddp/collectives/local_group.h"

#include <fmt/format.h>

#include <cstring>

#include "ddp/collectives/arguments.h"

namespace ddp {
namespace {

class DoneWork : public Work {
 public:
  void Wait() override {}
  bool IsDone() const override { return true; }
};

class FailedWork : public Work {
 public:
  explicit FailedWork(std::string message) : message_(std::move(message)) {}
  void Wait() override { throw CollectiveError(message_); }
  bool IsDone() const override { return true; }

 private:
  const std::string message_;
};

}  // namespace

LocalGroup::LocalGroup(std::string_view backend)
    : ProcessGroup(0, 1), backend_(backend), done_(std::make_shared<DoneWork>()) {}

std::shared_ptr<Work> LocalGroup::AllReduce(const Buffer& buffer, ReduceOp) {
  CheckCpuBuffer("all_reduce", buffer);
  return Done("all_reduce");
}

std::shared_ptr<Work> LocalGroup::Broadcast(const Buffer& buffer, int root) {
  CheckCpuBuffer("broadcast", buffer);
  CheckRoot("broadcast", root, 1);
  return Done("broadcast");
}

std::shared_ptr<Work> LocalGroup::AllGather(const Buffer& input, const Buffer& output) {
  CheckAllGatherBuffers(input, output, 1);
  std::shared_ptr<Work> work = Done("all_gather");
  if (work == done_ && input.num_elements > 0) {
    std::memmove(output.data, input.data, input.num_bytes());
  }
  return work;
}

std::shared_ptr<Work> LocalGroup::Barrier() { return Done("barrier"); }

std::vector<std::string> LocalGroup::ExchangeBlobs(const std::string& mine) {
  Done("exchange_blobs")->Wait();
  return {mine};
}

ops::Memory LocalGroup::Allocate(int64_t num_bytes, const ops::Device& device) {
  return ops::AllocateMemory(num_bytes, device);
}

void LocalGroup::Abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (!abort_reason_) abort_reason_ = reason;
}

std::shared_ptr<Work> LocalGroup::Done(const char* operation) {
  std::lock_guard lock(mutex_);
  if (!abort_reason_) return done_;
  return std::make_shared<FailedWork>(
      fmt::format("rank 0: {} failed: aborted: {}", operation, *abort_reason_));
}

}  // namespace ddp
