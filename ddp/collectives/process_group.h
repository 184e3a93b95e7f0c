// ProcessGroup: ranks that work together, and the operations they do together.
//
//   auto group = ddp::InitProcessGroup(
//       {.backend = "gloo", .rank = rank, .world_size = 2, .store = store});
//   std::shared_ptr<Work> work = group->AllReduce(BufferOf(gradient), ReduceOp::kAverage);
//   ...                       // it travels meanwhile; `gradient` must not be touched
//   work->Wait();             // now `gradient` is the average, the same bits on every rank
//
// Every rank calls the same operations in the same order, with the same sizes and dtypes. They run
// one after the other, in that order, on the group's progress thread, or on the caller's own in
// Wait() when nothing is ahead of them. Buffers belong to the caller and must live, untouched,
// until Wait() returns or throws.
//
// Sums run in rank order (((r0 + r1) + r2) + ...) for every element, whatever the size: the same
// values give the same bits each time, for every bucket size. bfloat16 and float16 are summed in
// float32 and rounded once.
//
// Errors: std::invalid_argument at the call for arguments that can't be right (a negative root, a
// null pointer, a device the backend can't reach), before any traffic; CollectiveError and what
// derives from it from Wait(). A group that failed stays failed.
// Threads: one thread at a time calls operations of a group; Wait() may be called by any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/errors.h"
#include "ddp/store/store.h"
#include "ops/tensor/tensor.h"

namespace ddp {

// Elements somewhere in memory: a tensor's, or those of any program.
struct Buffer {
  void* data = nullptr;
  int64_t num_elements = 0;
  ops::DType dtype = ops::DType::kFloat32;
  ops::Device device = ops::Device::Cpu();

  int64_t num_bytes() const { return num_elements * ops::SizeOf(dtype); }
};

inline Buffer BufferOf(const ops::Tensor& tensor) {
  return {tensor.raw_data(), tensor.num_elements(), tensor.dtype(), tensor.device()};
}

// kAverage divides the sum by the number of ranks (integers truncate).
enum class ReduceOp { kSum, kAverage, kMin, kMax };
std::string_view Name(ReduceOp op);

// An operation under way.
class Work {
 public:
  virtual ~Work() = default;
  // Returns when the result is in the buffers, or throws what went wrong; again for each call.
  virtual void Wait() = 0;
  // Whether Wait() would return or throw at once.
  virtual bool IsDone() const = 0;
};

class ProcessGroup {
 public:
  // Ends the progress thread after what is under way has ended or failed.
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  virtual std::string_view backend() const = 0;

  // In place: afterwards `buffer` is op over the ranks' buffers.
  virtual std::shared_ptr<Work> AllReduce(const Buffer& buffer, ReduceOp op) = 0;
  // Afterwards every rank's buffer holds what rank `root`'s held.
  virtual std::shared_ptr<Work> Broadcast(const Buffer& buffer, int root) = 0;
  // output[r * input.num_elements ...] = rank r's input, for all r; output has size() times the
  // elements of input.
  virtual std::shared_ptr<Work> AllGather(const Buffer& input, const Buffer& output) = 0;
  // Returns once every rank has called it.
  virtual std::shared_ptr<Work> Barrier() = 0;

  // Every rank's blob, by rank; lengths may differ. For small things such as shapes and names.
  virtual std::vector<std::string> ExchangeBlobs(const std::string& mine) = 0;

  // Memory for buffers that travel often (buckets): where the backend can, a place that peers reach
  // without a copy. Lives as long as its last user, beyond the group.
  virtual ops::Memory Allocate(int64_t num_bytes, const ops::Device& device) = 0;

  // Ends what is under way with `reason`, on this rank now and on the others as soon as they
  // notice; later operations throw it. Safe from any thread.
  virtual void Abort(const std::string& reason) = 0;

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

 private:
  const int rank_;
  const int size_;
};

struct ProcessGroupOptions {
  // "gloo": TCP between any hosts, CPU tensors.
  std::string backend = "gloo";
  int rank = 0;
  int world_size = 1;
  // Where the ranks meet; used while the group is made, and to tell peers why a rank failed.
  std::shared_ptr<Store> store = nullptr;
  // Limit of each operation, and of meeting.
  Duration timeout = kDefaultTimeout;
  // Where this rank's tensors are; a backend that can't reach it is an error that says which can.
  ops::Device device = ops::Device::Cpu();
  // The network interface that peers connect to, such as "eth0"; "": the one that leads to the
  // store, which is the loopback interface when the store is on this host.
  std::string interface = "";
};

// Returns when all ranks have met. Throws std::invalid_argument for options that can't be right
// (an unknown backend: lists the known ones; a rank outside the world; "nccl" for CPU tensors:
// says what would work), TimeoutError with the ranks that are missing.
std::unique_ptr<ProcessGroup> InitProcessGroup(const ProcessGroupOptions& options);

}  // namespace ddp
