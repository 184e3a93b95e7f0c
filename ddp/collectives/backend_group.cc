#include "ddp/collectives/backend_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "ddp/collectives/arguments.h"
#include "ddp/collectives/reduce.h"
#include "ddp/collectives/roll_call.h"
#include "ddp/collectives/store_values.h"
#include "ddp/store/prefix_store.h"

namespace ddp {
namespace {

// A rank that has found out more than the others tells them; how long it may take to be heard.
constexpr Duration kVerdictTime = std::chrono::milliseconds(300);

bool IsPeerToPeer(const Operation& operation) {
  return operation.kind == OperationKind::kSend || operation.kind == OperationKind::kReceive;
}

// Multiplies what this rank gives by its factor; the operation that is left is a sum. `scratch`
// holds the products where the output has no place for them.
Operation Premultiply(Operation operation, std::vector<std::byte>& scratch) {
  Buffer products = operation.input;
  if (operation.kind == OperationKind::kAllReduce) {
    products.data = operation.output.data;
  } else {
    scratch.resize(products.num_bytes());
    products.data = scratch.data();
  }
  Multiply(products.dtype, operation.reduction.factor, operation.input.data, products.data,
           products.num_elements);
  operation.input = products;
  return operation;
}

}  // namespace

// An operation that runs, for the watch.
class BackendGroup::Watched {
 public:
  Watched(std::optional<FailureWatch>& watch, Clock::time_point start) : watch_(watch) {
    if (watch_) watch_->Begin(start);
  }
  ~Watched() {
    if (watch_) watch_->End();
  }

 private:
  std::optional<FailureWatch>& watch_;
};

class BackendGroup::Task : public WorkQueue::Item {
 public:
  Task(BackendGroup* group, Part part) : group_(group), part_(std::move(part)) {}

 private:
  bool Post() override { return group_->Post(part_); }
  void Execute() override { group_->Run({&part_, 1}); }

  BackendGroup* const group_;
  Part part_;
};

class BackendGroup::CoalescedTask : public WorkQueue::Item {
 public:
  explicit CoalescedTask(BackendGroup* group) : group_(group) {}
  void Add(Part part) { parts_.push_back(std::move(part)); }

 private:
  void Execute() override { group_->Run(parts_); }

  BackendGroup* const group_;
  std::vector<Part> parts_;
};

BackendGroup::BackendGroup(Meeting meeting, std::string_view backend_name,
                           std::unique_ptr<Backend> backend, MakeGroup make_group)
    : ProcessGroup(meeting.rank(), meeting.size()),
      meeting_(std::move(meeting)),
      backend_name_(backend_name),
      backend_(std::move(backend)),
      make_group_(make_group),
      recorder_({.group = meeting_.options.name,
                 .backend = backend_name_,
                 .rank = rank(),
                 .size = size(),
                 .host = meeting_.members[rank()].host}),
      num_sent_(size(), 0),
      num_received_(size(), 0) {
  if (meeting_.store != nullptr) {
    watch_.emplace(meeting_.store, rank(),
                   [this](const Failure& failure) { Fail(failure, "a peer"); });
  }
  Issue({.kind = OperationKind::kJoin}, TimeLeft(meeting_.deadline))->Wait();
}

BackendGroup::~BackendGroup() {
  if (std::uncaught_exceptions() > exceptions_at_start_) Abort("an exception ended it");
  queue_.reset();
  watch_.reset();
  // Whoever still wants something of this rank learns that it left. Connections end gently then:
  // what was sent still arrives.
  if (!failed_ && meeting_.store != nullptr) {
    AgreeOnFailure(*meeting_.store, {Failure::Kind::kLeft, rank()});
  }
}

ProcessGroup::WorkPtr BackendGroup::Issue(Operation operation, Timeout timeout) {
  CheckArguments(operation, rank(), size());
  Part part;
  part.call = CallOf(operation, NextNumber(operation));
  part.timeout = ClampTimeout(timeout.value_or(meeting_.options.timeout));
  part.issued = Clock::now();
  part.num_bytes = CommonBuffer(operation).num_bytes();
  part.record = recorder_.Begin(part.call, part.num_bytes, part.issued,
                                IsPeerToPeer(operation) ? operation.root : FlightRecorder::kNoPeer);
  part.operation = std::move(operation);
  if (Observer* const observer = meeting_.options.observer) observer->OnIssued(ReportOn(part));
  if (coalesced_ != nullptr) {
    coalesced_->Add(std::move(part));
    return coalesced_;
  }
  auto task = std::make_shared<Task>(this, std::move(part));
  queue_->Push(task);
  return task;
}

// Collectives are counted together, messages between two ranks for each direction.
int64_t BackendGroup::NextNumber(const Operation& operation) {
  if (operation.kind == OperationKind::kJoin) return 0;
  if (operation.kind == OperationKind::kSend) return ++num_sent_[operation.root];
  if (operation.kind == OperationKind::kReceive) return ++num_received_[operation.root];
  return ++sequence_number_;
}

ProcessGroup::WorkPtr BackendGroup::Coalesce(const std::function<void()>& issue) {
  if (coalesced_ != nullptr) throw std::logic_error("a Coalesce inside another");
  coalesced_ = std::make_shared<CoalescedTask>(this);
  std::exception_ptr error;
  try {
    issue();
  } catch (...) {
    error = std::current_exception();  // what was issued before it still runs
  }
  const std::shared_ptr<CoalescedTask> task = std::exchange(coalesced_, nullptr);
  queue_->Push(task);
  if (!error) return task;
  // The caller gets no Work to wait for, and may let go of the buffers.
  try {
    task->Wait();
  } catch (const std::exception&) {
    // The later error; the first one is told.
  }
  std::rethrow_exception(error);
}

bool BackendGroup::Post(Part& part) {
  if (failed_ || IsPeerToPeer(part.operation)) return false;
  if (part.operation.reduction.op == ReduceOp::kPremultipliedSum) return false;
  part.posted = backend_->Post(part.operation, part.call);
  return part.posted;
}

void BackendGroup::Run(std::span<Part> parts) {
  while (!parts.empty()) {
    const auto other = std::ranges::find_if_not(
        parts, [](const Part& part) { return IsPeerToPeer(part.operation); });
    const std::span<Part> together = parts.first(std::max<size_t>(other - parts.begin(), 1));
    try {
      RunTogether(together);
    } catch (const std::exception& error) {
      for (Part& part : parts) End(part, Clock::now(), error.what());
      if (!recorded_.exchange(true)) RecordFailure();
      throw;
    }
    const auto end = Clock::now();
    for (Part& part : together) End(part, end);
    parts = parts.subspan(together.size());
  }
}

void BackendGroup::Start(Part& part, Clock::time_point time) {
  recorder_.Started(part.record, time);
  part.started = time;
  if (Observer* const observer = meeting_.options.observer) observer->OnStarted(ReportOn(part));
}

void BackendGroup::End(const Part& part, Clock::time_point time, const std::string& error) {
  recorder_.Ended(part.record, time, error);
  if (Observer* const observer = meeting_.options.observer) {
    CollectiveReport report = ReportOn(part);
    report.ended = time;
    report.failed = !error.empty();
    observer->OnEnded(report);
  }
}

CollectiveReport BackendGroup::ReportOn(const Part& part) const {
  return {.group = meeting_.options.name,
          .backend = backend_name_,
          .kind = part.call.kind,
          .sequence_number = part.call.sequence_number,
          .num_bytes = part.num_bytes,
          .issued = part.issued,
          .started = part.started};
}

void BackendGroup::RunTogether(std::span<Part> parts) {
  const Part& first = parts.front();
  const auto start = first.posted ? first.issued : Clock::now();
  for (Part& part : parts) Start(part, start);
  const Watched watched(watch_, start);
  if (failed_) {
    ThrowFailure(
        fmt::format("{} can't run, the group failed in {}", Describe(first.call), WhereItFailed()));
  }
  try {
    return RunOnBackend(parts, start + first.timeout);
  } catch (const PeerTrouble& trouble) {
    Fail(Diagnose(trouble, first), Describe(first.call));
  } catch (const Disagreement& disagreement) {
    Fail({Failure::Kind::kMismatch, disagreement.peer(), disagreement.what()},
         Describe(first.call));
  } catch (const std::exception& error) {
    // Among them the end of a wait after Abort; then the reason is there already.
    Fail({Failure::Kind::kAborted, rank(), error.what()}, Describe(first.call));
  }
  ThrowFailure(
      fmt::format("{} failed after {}", Describe(first.call), FormatSeconds(Clock::now() - start)));
}

void BackendGroup::RunOnBackend(std::span<Part> parts, Deadline deadline) {
  const Part& first = parts.front();
  if (IsPeerToPeer(first.operation)) {
    std::vector<Operation> operations;
    for (const Part& part : parts) operations.push_back(part.operation);
    return backend_->Exchange(operations, deadline);
  }
  if (first.operation.reduction.op == ReduceOp::kPremultipliedSum) {
    std::vector<std::byte> scratch;
    return backend_->Run(Premultiply(first.operation, scratch), first.call, deadline);
  }
  backend_->Run(first.operation, first.call, deadline);
}

void BackendGroup::ThrowFailure(const std::string& context) const {
  FirstFailure()->Throw(fmt::format("rank {}: {}", rank(), context), rank());
}

Failure BackendGroup::Diagnose(const PeerTrouble& trouble, const Part& part) const {
  if (trouble.kind() == PeerTrouble::kLost) {
    return {Failure::Kind::kPeerLost, trouble.ranks().front(),
            trouble.reason().empty() ? "connection closed" : trouble.reason()};
  }
  return {Failure::Kind::kTimeout, rank(),
          fmt::format("rank {} waited {} for {}", rank(), FormatSeconds(part.timeout),
                      DescribeAwaited(trouble.ranks(), part))};
}

// `direct` are those whose message this rank waits for. In a collective they may wait themselves,
// for the ranks that really are absent. A message is awaited from its sender alone: what others do
// is no more than a hint.
std::string BackendGroup::DescribeAwaited(const std::vector<int>& direct, const Part& part) const {
  const Duration limit = RollCallTime(part.timeout);
  if (limit == Duration::zero()) return FormatRanks(direct);
  const auto absent =
      CallRoll(*meeting_.store, rank(), size(), limit, [this] { return !!failed_; });
  if (!absent) return FormatRanks(direct);
  if (!IsPeerToPeer(part.operation) && !absent->empty()) return FormatRanks(*absent);
  std::vector<int> direct_and_absent;
  std::ranges::copy_if(direct, std::back_inserter(direct_and_absent),
                       [&](int peer) { return std::ranges::count(*absent, peer) != 0; });
  if (!direct_and_absent.empty()) return FormatRanks(direct_and_absent);
  const std::string there = fmt::format("{}, in an operation too", FormatRanks(direct));
  return absent->empty() ? there : fmt::format("{}; {} not in any", there, FormatRanks(*absent));
}

std::optional<Failure> BackendGroup::FirstFailure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::string BackendGroup::WhereItFailed() const {
  std::lock_guard lock(mutex_);
  return failed_in_;
}

// Nothing more is done here before peers can know why. The reason is in the store before the
// connections close, so peers that see them close find it there.
void BackendGroup::Fail(Failure failure, const std::string& where) {
  std::lock_guard failing(failing_mutex_);
  if (failed_) return;
  backend_->Stop();
  const Failure first =
      meeting_.store == nullptr ? failure : AgreeOnFailure(*meeting_.store, failure);
  // A lost connection and a wait in vain are in need of an explanation, and not that the peer lost
  // it too.
  const bool lost_me = first.kind == Failure::Kind::kPeerLost && first.rank == rank();
  const bool unexplained =
      failure.kind == Failure::Kind::kPeerLost || failure.kind == Failure::Kind::kTimeout;
  {
    std::lock_guard lock(mutex_);
    failure_ = unexplained && !lost_me ? first : failure;
    failed_in_ = where;
    recorder_.Failed(failure_->Describe());
  }
  failed_ = true;
  backend_->Close();
}

void BackendGroup::Abort(const std::string& reason) {
  Fail({Failure::Kind::kAborted, rank(), reason}, "an abort");
}

std::string BackendGroup::WriteFlightRecord(const std::string& directory) const {
  return recorder_.WriteTo(directory);
}

// Where the options ask for it.
void BackendGroup::RecordFailure() noexcept {
  const std::string& directory = meeting_.options.flight_record_dir;
  if (directory.empty()) return;
  try {
    recorder_.WriteTo(directory);
  } catch (const std::exception& error) {
    // The failure that is being told matters more.
    fmt::print(stderr, "rank {}: no flight record: {}\n", rank(), error.what());
  }
}

ops::Memory BackendGroup::Allocate(int64_t num_bytes, const ops::Device& device) {
  return device.is_cpu() ? backend_->Allocate(num_bytes) : ops::AllocateMemory(num_bytes, device);
}

// Rank 0 waits for all and tells everybody the verdict: each rank makes a constant number of store
// operations.
void BackendGroup::MonitoredBarrier(Timeout timeout) {
  const int64_t number = ++num_monitored_barriers_;
  if (size() == 1) return;
  const std::string context = fmt::format("monitored_barrier #{}", number);
  if (failed_) {
    ThrowFailure(fmt::format("{} can't run, the group failed in {}", context, WhereItFailed()));
  }
  const Duration limit = ClampTimeout(timeout.value_or(meeting_.options.timeout));
  const Watched watched(watch_, Clock::now());
  std::vector<int> missing;
  try {
    missing = MeetInStore(fmt::format("monitored_barrier/{}", number), limit);
  } catch (const std::exception& error) {
    // Among them the end of a wait after another failure; then the reason is there already.
    Fail({Failure::Kind::kAborted, rank(), error.what()}, context);
  }
  if (failed_) ThrowFailure(fmt::format("{} failed", context));
  if (missing.empty()) return;
  Fail({Failure::Kind::kTimeout, rank(),
        fmt::format("{} didn't come within {}", FormatRanks(missing), FormatSeconds(limit))},
       context);
  ThrowFailure(fmt::format("{} failed", context));
}

// Returns the ranks that didn't come. Throws Stopped when the group fails meanwhile.
std::vector<int> BackendGroup::MeetInStore(const std::string& key, Duration limit) {
  Store& store = *meeting_.store;
  const Deadline deadline = DeadlineAfter(limit);
  const std::string verdict_key = key + "/verdict";
  const auto key_of = [&](int rank) { return fmt::format("{}/{}", key, rank); };
  std::vector<int> missing;
  if (rank() != 0) {
    store.Set(key_of(rank()), "here", limit);
    const std::optional<std::string> verdict =
        GetFromStore(verdict_key, deadline + std::min(limit / 20, kVerdictTime));
    if (!verdict) return {0};
    return DecodeRanks(verdict_key, *verdict, size());
  }
  for (int peer = 1; peer < size(); ++peer) {
    if (!GetFromStore(key_of(peer), deadline)) missing.push_back(peer);
  }
  store.Set(verdict_key, EncodeRanks(missing), kVerdictTime);
  return missing;
}

// Nothing when it isn't there by the deadline.
std::optional<std::string> BackendGroup::GetFromStore(const std::string& key, Deadline deadline) {
  constexpr Duration kSlice = std::chrono::milliseconds(100);
  for (;;) {
    if (failed_) throw Stopped();
    try {
      return meeting_.store->Get(key, std::min(TimeLeft(deadline), kSlice));
    } catch (const TimeoutError&) {
      if (Clock::now() >= deadline) return std::nullopt;
    }
  }
}

std::unique_ptr<ProcessGroup> BackendGroup::Split(int color, int key) {
  const int64_t number = ++num_splits_;
  const int32_t mine[] = {color, key};
  std::vector<int32_t> all(2 * size());
  // Only read, as the input of an operation is.
  AllGather({const_cast<int32_t*>(mine), 2, ops::DType::kInt32},
            {all.data(), 2 * size(), ops::DType::kInt32})
      ->Wait();
  if (color < 0) return nullptr;
  std::vector<int> members;
  for (int rank = 0; rank < size(); ++rank) {
    if (all[2 * rank] == color) members.push_back(rank);
  }
  std::ranges::stable_sort(members, {}, [&](int rank) { return all[2 * rank + 1]; });

  ProcessGroupOptions options = meeting_.options;
  options.name = fmt::format("{}/{}.{}", options.name, number, color);
  options.rank = static_cast<int>(std::ranges::find(members, rank()) - members.begin());
  options.world_size = static_cast<int>(members.size());
  if (meeting_.store != nullptr) {
    options.store =
        std::make_shared<PrefixStore>(fmt::format("split/{}.{}/", number, color), meeting_.store);
  }
  return make_group_(options);
}

}  // namespace ddp
