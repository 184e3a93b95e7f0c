// LocalGroup: a group of one rank. Every operation is done when it is issued; there is no thread,
// no socket and no store.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"

namespace ddp {

class LocalGroup : public ProcessGroup {
 public:
  // `backend`: the name that was asked for.
  explicit LocalGroup(std::string_view backend);

  std::string_view backend() const override { return backend_; }
  std::shared_ptr<Work> AllReduce(const Buffer& buffer, ReduceOp op) override;
  std::shared_ptr<Work> Broadcast(const Buffer& buffer, int root) override;
  std::shared_ptr<Work> AllGather(const Buffer& input, const Buffer& output) override;
  std::shared_ptr<Work> Barrier() override;
  std::vector<std::string> ExchangeBlobs(const std::string& mine) override;
  ops::Memory Allocate(int64_t num_bytes, const ops::Device& device) override;
  void Abort(const std::string& reason) override;

 private:
  // What every operation returns; throws if the group was aborted.
  std::shared_ptr<Work> Done(const char* operation);

  const std::string backend_;
  const std::shared_ptr<Work> done_;
  std::mutex mutex_;
  std::optional<std::string> abort_reason_;  // guarded by mutex_
};

}  // namespace ddp
