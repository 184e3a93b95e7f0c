// HierarchicalBackend: ranks on several hosts, some of which share one. Reductions and broadcasts
// go through shared memory inside each host, and between the hosts' leaders over the network: a
// byte crosses the network once for each host. Everything else goes over the network directly.
//
// Sums are taken inside each host first, in rank order, then over the hosts in the order of their
// first ranks: their bits depend on the placement, never on timing. Averages of float64 whose sum
// overflows on its way stay infinite; those of narrower floating point don't.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ddp/collectives/auto/host_plan.h"
#include "ddp/collectives/backend.h"
#include "ddp/collectives/meeting.h"
#include "ddp/collectives/scratch.h"

namespace ddp {

class HierarchicalBackend : public Backend {
 public:
  using MakeBackend = std::unique_ptr<Backend> (*)(const Meeting& meeting);

  HierarchicalBackend(const Meeting& meeting, const HostPlan& plan, MakeBackend make_local,
                      MakeBackend make_remote);

  void Run(const Operation& operation, const Call& call, Deadline deadline) override;
  void Exchange(std::span<const Operation> operations, Deadline deadline) override;
  ops::Memory Allocate(int64_t num_bytes) override;
  void Stop() override;
  void Close() override;

 private:
  // A backend for some of the ranks; null where this rank is alone, or not one of them.
  struct Part {
    std::unique_ptr<Backend> backend;
    std::vector<int> ranks;
  };

  // Runs `operation` on a part, its root given as a rank of the whole group; does nothing where
  // this rank has no such part.
  void RunOn(const Part& part, Operation operation, Deadline deadline);
  // Compares the Calls of all ranks.
  void Agree(const Call& call, Deadline deadline);
  void AgreeOn(const Part& part, const Call& call, Deadline deadline);
  void Broadcast(const Buffer& buffer, int root, Deadline deadline);
  void AllReduce(const Operation& operation, Deadline deadline);
  void Reduce(const Operation& operation, Deadline deadline);
  // Accumulators of all ranks' values (reduce.h), or wider sums of them (wide_average.h): on the
  // leaders, empty elsewhere.
  Buffer ReduceToLeaders(const Operation& operation, Deadline deadline);
  Buffer ReduceWideToLeaders(const Operation& operation, Deadline deadline);
  Buffer SumOnLeaders(Buffer own, ReduceOp op, Scratch* scratch, Deadline deadline);
  bool FiniteOnLeaders(const Buffer& sums, Deadline deadline);
  int leader() const { return plan_.local_ranks().front(); }

  const int rank_;
  const int size_;
  const HostPlan plan_;
  Part local_;    // the ranks of this host
  Part leaders_;  // the first rank of each host
  Part all_;
  int64_t sequence_number_ = 0;  // of what runs on the parts
  Scratch own_, sums_, wide_sums_, thrown_away_;
};

}  // namespace ddp
