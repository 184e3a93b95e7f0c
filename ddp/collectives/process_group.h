// ProcessGroup: ranks that work together, and the operations they do together.
//
//   auto group = ddp::InitProcessGroup({.rank = rank, .world_size = 2, .store = store});
//   std::shared_ptr<Work> work = group->AllReduce(BufferOf(gradient), ReduceOp::kAverage);
//   ...                       // it travels meanwhile; `gradient` must not be touched
//   work->Wait();             // now `gradient` is the average, the same bits on every rank
//
// Every rank calls the same operations in the same order, with the same sizes and dtypes. They run
// one after the other, in that order, on the group's progress thread, or on the caller's own in
// Wait() when nothing is ahead of them: `group->AllReduce(...)->Wait()` is the synchronous form,
// and hands nothing over. Groups are independent of each other. Buffers belong to the caller and
// must live, untouched, until Wait() returns or throws.
//
// Sums run in rank order (((r0 + r1) + r2) + ...) for every element, whatever the size: the same
// values give the same bits each time, for every bucket size, and on one host for every backend.
// (`auto` over several hosts sums inside each host first.) bfloat16 and float16 are summed in
// float32 and rounded once.
//
// Errors: std::invalid_argument at the call for arguments that can't be right (a negative root, a
// null pointer, a device the backend can't reach), before any traffic; CollectiveError and what
// derives from it from Wait(). A group that failed stays failed.
// Threads: one thread at a time calls operations of a group; Wait() may be called by any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/collectives/operation.h"
#include "ddp/errors.h"
#include "ddp/store/store.h"
#include "ops/tensor/tensor.h"

namespace ddp {

class Observer;

inline Buffer BufferOf(const ops::Tensor& tensor) {
  return {tensor.raw_data(), tensor.num_elements(), tensor.dtype(), tensor.device()};
}

// An operation under way.
class Work {
 public:
  virtual ~Work() = default;
  // Returns when the result is in the buffers, or throws what went wrong; again for each call.
  virtual void Wait() = 0;
  // Whether Wait() would return or throw at once.
  virtual bool IsDone() = 0;
};

class ProcessGroup {
 public:
  using WorkPtr = std::shared_ptr<Work>;
  // How long an operation may take; nothing: the group's timeout.
  using Timeout = std::optional<Duration>;
  // Elements for each rank, by rank.
  using Counts = std::vector<int64_t>;

  // Ends the progress thread after what is under way has ended or failed.
  virtual ~ProcessGroup() = default;

  int rank() const { return rank_; }
  int size() const { return size_; }
  virtual std::string_view backend() const = 0;

  // Afterwards `buffer` is the reduction of the ranks' buffers, or `output` that of the inputs.
  WorkPtr AllReduce(const Buffer& buffer, const Reduction& reduction, Timeout timeout = {}) {
    return AllReduce(buffer, buffer, reduction, timeout);
  }
  WorkPtr AllReduce(const Buffer& input, const Buffer& output, const Reduction& reduction,
                    Timeout timeout = {});
  // The same for rank `root` only; the other ranks' outputs are left alone and may be empty.
  WorkPtr Reduce(const Buffer& input, const Buffer& output, const Reduction& reduction, int root,
                 Timeout timeout = {});
  // The inputs are size() blocks of output.num_elements; rank r gets the reduction of the r-th
  // blocks. `output` may be this rank's block of the input. With `counts`, block r has counts[r]
  // elements: the same counts on all ranks.
  WorkPtr ReduceScatter(const Buffer& input, const Buffer& output, const Reduction& reduction,
                        Timeout timeout = {});
  WorkPtr ReduceScatter(const Buffer& input, const Buffer& output, const Reduction& reduction,
                        const Counts& counts, Timeout timeout = {});

  // Afterwards every rank's buffer holds what rank `root`'s held.
  WorkPtr Broadcast(const Buffer& buffer, int root, Timeout timeout = {});
  // output[r * input.num_elements ...] = rank r's input, for all r. With `counts`, rank r gives
  // counts[r] elements, and its block begins behind those of the ranks before it. The input may be
  // this rank's block of the output.
  WorkPtr AllGather(const Buffer& input, const Buffer& output, Timeout timeout = {});
  WorkPtr AllGather(const Buffer& input, const Buffer& output, const Counts& counts,
                    Timeout timeout = {});
  // The same for rank `root` only; the other ranks' outputs may be empty.
  WorkPtr Gather(const Buffer& input, const Buffer& output, int root, Timeout timeout = {});
  WorkPtr Gather(const Buffer& input, const Buffer& output, int root, const Counts& counts,
                 Timeout timeout = {});
  // The other way round: rank r gets the r-th block of rank `root`'s input.
  WorkPtr Scatter(const Buffer& input, const Buffer& output, int root, Timeout timeout = {});
  WorkPtr Scatter(const Buffer& input, const Buffer& output, int root, const Counts& counts,
                  Timeout timeout = {});
  // Block r of this rank's input becomes block rank() of rank r's output. Input and output don't
  // overlap. With counts: input_counts[r] elements go to rank r, output_counts[r] come from it.
  WorkPtr AllToAll(const Buffer& input, const Buffer& output, Timeout timeout = {});
  WorkPtr AllToAll(const Buffer& input, const Buffer& output, const Counts& input_counts,
                   const Counts& output_counts, Timeout timeout = {});

  // One rank sends, the other receives a buffer of the same dtype and size. Between two ranks they
  // meet in the order of issue. A send may wait for its receive: two ranks that send to each other
  // first put both operations into one Coalesce.
  WorkPtr Send(const Buffer& buffer, int to, Timeout timeout = {});
  WorkPtr Receive(const Buffer& buffer, int from, Timeout timeout = {});

  // Returns once every rank has called it.
  WorkPtr Barrier(Timeout timeout = {});
  // The same over the store, at its price: on failure every rank learns which ranks are missing.
  virtual void MonitoredBarrier(Timeout timeout = {}) = 0;

  // Every rank's blob, by rank; lengths may differ. For small things such as shapes and names.
  std::vector<std::string> ExchangeBlobs(const std::string& mine);

  // What `issue` issues to this group becomes one Work, handed over at once: for many small
  // buffers, and for sends and receives that run at the same time. The Works that the calls inside
  // return are that same Work, which `issue` must not wait for.
  virtual WorkPtr Coalesce(const std::function<void()>& issue) = 0;

  // The ranks that give the same `color` form a new group, ordered by `key`, then by rank; a
  // negative color: none (null). Every rank of this group calls it.
  virtual std::unique_ptr<ProcessGroup> Split(int color, int key = 0) = 0;
  // A group of these ranks of this group, in this order; null for the others. Every rank of this
  // group calls it, with the same ranks.
  std::unique_ptr<ProcessGroup> NewGroup(const std::vector<int>& ranks);

  // Memory for buffers that travel often (buckets): where the backend can, a place that peers reach
  // without a copy. Lives as long as its last user, beyond the group.
  virtual ops::Memory Allocate(int64_t num_bytes, const ops::Device& device) = 0;

  // Ends what is under way with `reason`, on this rank now and on the others as soon as they
  // notice; later operations throw it. Safe from any thread.
  virtual void Abort(const std::string& reason) = 0;

  // Writes the last operations of this rank as JSON into a file of `directory`, which must exist,
  // and returns its path; `bazel run //ddp:desync` reads those of all ranks. Throws
  // std::system_error. Safe from any thread.
  virtual std::string WriteFlightRecord(const std::string& directory) const = 0;

 protected:
  ProcessGroup(int rank, int size) : rank_(rank), size_(size) {}

  // Takes an operation whose arguments are right.
  virtual WorkPtr Issue(Operation operation, Timeout timeout) = 0;

 private:
  const int rank_;
  const int size_;
};

struct ProcessGroupOptions {
  // "auto": shared memory between ranks of one host, Gloo between hosts. "gloo": TCP. "shm": shared
  // memory, all ranks on one host. "mpi": Open MPI, under mpirun. All for CPU tensors.
  std::string backend = "auto";
  int rank = 0;
  int world_size = 1;
  // Where the ranks meet. It must live as long as the group: ranks that come to talk to each other
  // later connect through it, and tell each other there why one failed.
  std::shared_ptr<Store> store = nullptr;
  // Limit of each operation, and of meeting.
  Duration timeout = kDefaultTimeout;
  // How long a peer's machine, or the network to it, may be silent before the peer counts as lost;
  // a quarter of this, in whole seconds, lies between questions. For TCP.
  Duration heartbeat_timeout = kDefaultHeartbeatTimeout;
  // Where this rank's tensors are; a backend that can't reach it is an error that says which can.
  ops::Device device = ops::Device::Cpu();
  // The network interface that peers connect to: "eth0", the beginning of a name or an address
  // (ddp/store/interfaces.h); "": the one that leads to the
  // store, which is the loopback interface when the store is on this host.
  std::string interface = "";
  // Ranks that give the same name share memory, others never do; "": those of one machine, in the
  // same namespaces.
  std::string host = "";
  // For messages and flight records.
  std::string name = "world";
  // Where a rank writes its flight record when the group fails; "": nowhere.
  std::string flight_record_dir = "";
  // Told about each operation of the group and of those split from it (ddp/observer.h); must
  // outlive them.
  Observer* observer = nullptr;
};

// Returns when all ranks have met. Throws std::invalid_argument for options that can't be right
// (an unknown backend: lists the known ones; a rank outside the world; "nccl" for CPU tensors:
// says what would work), TimeoutError with the ranks that are missing.
std::unique_ptr<ProcessGroup> InitProcessGroup(const ProcessGroupOptions& options);

}  // namespace ddp
