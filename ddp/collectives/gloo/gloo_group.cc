#include "ddp/collectives/gloo/gloo_group.h"

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "ddp/collectives/arguments.h"
#include "ddp/collectives/failure.h"
#include "ddp/collectives/gloo/call.h"
#include "ddp/collectives/gloo/loop.h"
#include "ddp/collectives/gloo/mesh.h"
#include "ddp/collectives/gloo/operations.h"
#include "ddp/collectives/gloo/rendezvous.h"
#include "ddp/collectives/work_queue.h"

namespace ddp {
namespace {

using gloo_backend::Call;
using gloo_backend::Connections;
using gloo_backend::Disagreement;
using gloo_backend::Mesh;
using gloo_backend::Operation;
using gloo_backend::Operations;
using gloo_backend::PeerTrouble;
using gloo_backend::ScopedIgnoreSigpipe;

class GlooGroup : public ProcessGroup {
 public:
  GlooGroup(const ProcessGroupOptions& options, std::shared_ptr<Store> store,
            Connections connections)
      : ProcessGroup(options.rank, options.world_size),
        store_(std::move(store)),
        timeout_(options.timeout),
        mesh_(std::move(connections), options.rank, options.world_size),
        operations_(&mesh_) {}

  // Returns when every rank has all its connections. Before that none may close one: Gloo ends the
  // process of a peer that is just taking up a connection that closes.
  void Join(Deadline deadline) {
    Run(
        {.operation = Operation::kJoin},
        [this](const Call& call, Deadline deadline) { operations_.Barrier(call, deadline); },
        deadline);
  }

  ~GlooGroup() override {
    if (std::uncaught_exceptions() > exceptions_at_start_) {
      Abort("an exception ended it");
    }
    queue_.reset();
    // Whoever still wants something of this rank learns that it left. Connections end gently then:
    // what was sent still arrives.
    if (!FirstFailure()) AgreeOnFailure(*store_, {Failure::Kind::kLeft, rank()});
  }

  std::string_view backend() const override { return "gloo"; }

  std::shared_ptr<Work> AllReduce(const Buffer& buffer, ReduceOp op) override {
    CheckCpuBuffer("all_reduce", buffer);
    return Issue({.operation = Operation::kAllReduce,
                  .dtype = buffer.dtype,
                  .reduce_op = op,
                  .num_elements = buffer.num_elements},
                 [this, buffer](const Call& call, Deadline deadline) {
                   operations_.AllReduce(call, buffer, deadline);
                 });
  }

  std::shared_ptr<Work> Broadcast(const Buffer& buffer, int root) override {
    CheckCpuBuffer("broadcast", buffer);
    CheckRoot("broadcast", root, size());
    return Issue({.operation = Operation::kBroadcast,
                  .dtype = buffer.dtype,
                  .root = root,
                  .num_elements = buffer.num_elements},
                 [this, buffer](const Call& call, Deadline deadline) {
                   operations_.Broadcast(call, buffer, deadline);
                 });
  }

  std::shared_ptr<Work> AllGather(const Buffer& input, const Buffer& output) override {
    CheckAllGatherBuffers(input, output, size());
    return Issue({.operation = Operation::kAllGather,
                  .dtype = input.dtype,
                  .num_elements = input.num_elements},
                 [this, input, output](const Call& call, Deadline deadline) {
                   operations_.AllGather(call, input, output, deadline);
                 });
  }

  std::shared_ptr<Work> Barrier() override {
    return Issue({.operation = Operation::kBarrier}, [this](const Call& call, Deadline deadline) {
      operations_.Barrier(call, deadline);
    });
  }

  std::vector<std::string> ExchangeBlobs(const std::string& mine) override {
    std::vector<std::string> blobs;
    Issue({.operation = Operation::kExchangeBlobs}, [&](const Call& call, Deadline deadline) {
      blobs = operations_.ExchangeBlobs(call, mine, deadline);
    })->Wait();
    return blobs;
  }

  ops::Memory Allocate(int64_t num_bytes, const ops::Device& device) override {
    return ops::AllocateMemory(num_bytes, device);
  }

  void Abort(const std::string& reason) override {
    Fail({Failure::Kind::kAborted, rank(), reason}, "an abort");
  }

 private:
  using Body = std::function<void(const Call&, Deadline)>;

  std::shared_ptr<Work> Issue(Call call, Body body) {
    call.sequence_number = ++sequence_number_;
    return queue_->Push(
        [this, call, body = std::move(body)] { Run(call, body, DeadlineAfter(timeout_)); });
  }

  // On the queue's thread or a waiting caller's.
  void Run(const Call& call, const Body& body, Deadline deadline) {
    const ScopedIgnoreSigpipe guard;
    const auto start = Clock::now();
    ThrowIfFailed(call);
    try {
      body(call, deadline);
      return;
    } catch (const PeerTrouble& trouble) {
      Fail(Diagnose(trouble), Describe(call));
    } catch (const Disagreement& disagreement) {
      Fail({Failure::Kind::kMismatch, disagreement.peer(), disagreement.what()}, Describe(call));
    } catch (const std::exception& error) {
      // Among them the end of a wait after Abort; then the reason is there already.
      Fail({Failure::Kind::kAborted, rank(), error.what()}, Describe(call));
    }
    FirstFailure()->Throw(fmt::format("rank {}: {} failed after {}", rank(), Describe(call),
                                      FormatSeconds(Clock::now() - start)),
                          rank());
  }

  Failure Diagnose(const PeerTrouble& trouble) const {
    if (trouble.kind() == PeerTrouble::kLost) {
      return {Failure::Kind::kPeerLost, trouble.ranks().front(), "connection closed"};
    }
    return {Failure::Kind::kTimeout, rank(),
            fmt::format("rank {} waited {} for {}", rank(), FormatSeconds(timeout_),
                        FormatRanks(trouble.ranks()))};
  }

  void ThrowIfFailed(const Call& call) const {
    const std::optional<Failure> failure = FirstFailure();
    if (!failure) return;
    failure->Throw(fmt::format("rank {}: {} can't run, the group failed in {}", rank(),
                               Describe(call), failed_in_),
                   rank());
  }

  std::optional<Failure> FirstFailure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  // The first failure stays. It is in the store before the connections close, so peers that see
  // them close find it there.
  void Fail(Failure failure, const std::string& where) {
    const ScopedIgnoreSigpipe guard;
    std::lock_guard failing(failing_mutex_);
    if (FirstFailure()) return;
    const Failure first = AgreeOnFailure(*store_, failure);
    // Only a lost connection is in need of an explanation, and not that the peer lost it too.
    const bool lost_me = first.kind == Failure::Kind::kPeerLost && first.rank == rank();
    const bool explains = failure.kind == Failure::Kind::kPeerLost && !lost_me;
    {
      std::lock_guard lock(mutex_);
      failure_ = explains ? first : failure;
      failed_in_ = where;
    }
    mesh_.Stop();
    mesh_.Close();
  }

  const std::shared_ptr<Store> store_;
  const Duration timeout_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
  int64_t sequence_number_ = 0;
  std::mutex failing_mutex_;  // held while a failure is found out
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;  // guarded by mutex_
  std::string failed_in_;           // set with failure_, then constant

  Mesh mesh_;
  Operations operations_;
  std::unique_ptr<WorkQueue> queue_ = std::make_unique<WorkQueue>();
};

}  // namespace

std::unique_ptr<ProcessGroup> MakeGlooGroup(const ProcessGroupOptions& options) {
  const ScopedIgnoreSigpipe guard;
  const Deadline deadline = DeadlineAfter(options.timeout);
  const std::string context = fmt::format("rank {}: joining the group failed", options.rank);
  std::unique_ptr<GlooGroup> group;
  try {
    const std::shared_ptr<Store> store = gloo_backend::OpenGroupStore(options);
    const auto members = gloo_backend::MeetMembers(*store, options, deadline);
    group = std::make_unique<GlooGroup>(options, store,
                                        gloo_backend::Connect(*store, members, options, deadline));
  } catch (const TimeoutError& error) {
    throw TimeoutError(fmt::format("{}: {}", context, error.what()));
  } catch (const MismatchError& error) {
    throw MismatchError(fmt::format("{}: {}", context, error.what()));
  } catch (const PeerLostError& error) {
    throw PeerLostError(fmt::format("{}: {}", context, error.what()), error.peer());
  } catch (const PeerTrouble& trouble) {
    const int peer = trouble.ranks().front();
    throw PeerLostError(fmt::format("{}: lost rank {}: connection closed", context, peer), peer);
  } catch (const CollectiveError& error) {
    throw CollectiveError(fmt::format("{}: {}", context, error.what()));
  }
  group->Join(deadline);
  return group;
}

}  // namespace ddp
