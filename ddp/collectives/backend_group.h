// BackendGroup: the ProcessGroup above any backend. It checks arguments, numbers and queues the
// operations, records them, and when one fails finds out why, so that every rank tells the same
// cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ddp/collectives/backend.h"
#include "ddp/collectives/failure.h"
#include "ddp/collectives/failure_watch.h"
#include "ddp/collectives/flight_recorder.h"
#include "ddp/collectives/meeting.h"
#include "ddp/collectives/process_group.h"
#include "ddp/collectives/work_queue.h"
#include "ddp/observer.h"

namespace ddp {

class BackendGroup : public ProcessGroup {
 public:
  // How Split makes the groups of a part of the ranks.
  using MakeGroup = std::unique_ptr<ProcessGroup> (*)(const ProcessGroupOptions& options);

  // `meeting.store` may be null in a world of one rank. Returns when all ranks are connected.
  BackendGroup(Meeting meeting, std::string_view backend_name, std::unique_ptr<Backend> backend,
               MakeGroup make_group);
  ~BackendGroup() override;

  std::string_view backend() const override { return backend_name_; }
  void MonitoredBarrier(Timeout timeout) override;
  WorkPtr Coalesce(const std::function<void()>& issue) override;
  std::unique_ptr<ProcessGroup> Split(int color, int key) override;
  ops::Memory Allocate(int64_t num_bytes, const ops::Device& device) override;
  void Abort(const std::string& reason) override;
  std::string WriteFlightRecord(const std::string& directory) const override;

 private:
  // An operation on its way.
  struct Part {
    Operation operation;
    Call call;
    int64_t record = 0;
    Duration timeout = kDefaultTimeout;
    int64_t num_bytes = 0;  // of this rank's buffer
    Clock::time_point issued = {};
    Clock::time_point started = {};
    bool posted = false;  // under way since it was issued
  };
  class Task;
  class CoalescedTask;
  class Watched;

  WorkPtr Issue(Operation operation, Timeout timeout) override;
  int64_t NextNumber(const Operation& operation);

  bool Post(Part& part);
  // These run on the queue's thread or on a waiting caller's. Parts that run together are messages,
  // or a single collective.
  void Run(std::span<Part> parts);
  void RunTogether(std::span<Part> parts);
  void RunOnBackend(std::span<Part> parts, Deadline deadline);
  void Start(Part& part, Clock::time_point time);
  void End(const Part& part, Clock::time_point time, const std::string& error = "");
  CollectiveReport ReportOn(const Part& part) const;
  [[noreturn]] void ThrowFailure(const std::string& context) const;

  Failure Diagnose(const PeerTrouble& trouble, const Part& part) const;
  std::string DescribeAwaited(const std::vector<int>& direct, const Part& part) const;
  std::optional<Failure> FirstFailure() const;
  std::string WhereItFailed() const;
  // The first failure stays.
  void Fail(Failure failure, const std::string& where);
  void RecordFailure() noexcept;
  std::vector<int> MeetInStore(const std::string& key, Duration limit);
  std::optional<std::string> GetFromStore(const std::string& key, Deadline deadline);

  const Meeting meeting_;
  const std::string backend_name_;
  const std::unique_ptr<Backend> backend_;
  const MakeGroup make_group_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
  FlightRecorder recorder_;

  // Of the thread that issues.
  int64_t sequence_number_ = 0;
  std::vector<int64_t> num_sent_;      // by peer
  std::vector<int64_t> num_received_;  // by peer
  int64_t num_splits_ = 0;
  int64_t num_monitored_barriers_ = 0;
  std::shared_ptr<CoalescedTask> coalesced_;  // the one that Coalesce fills

  std::atomic<bool> failed_ = false;
  std::atomic<bool> recorded_ = false;  // the flight, after the first operation that failed
  std::mutex failing_mutex_;            // held while a failure is found out
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;  // guarded by mutex_
  std::string failed_in_;           // guarded by mutex_

  std::optional<FailureWatch> watch_;  // where there are peers
  std::unique_ptr<WorkQueue> queue_ = std::make_unique<WorkQueue>();
};

}  // namespace ddp
