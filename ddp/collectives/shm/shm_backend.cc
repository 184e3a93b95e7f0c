#include "ddp/collectives/shm/shm_backend.h"

#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/collectives/shm/collectives.h"
#include "ddp/collectives/shm/exchange.h"
#include "ddp/collectives/shm/regions.h"
#include "ddp/collectives/shm/segment.h"
#include "ddp/collectives/shm/waiter.h"

namespace ddp {
namespace {

// The segment's name; or, where rank 0 couldn't make one, kFailed and the reason.
constexpr char kSegmentKey[] = "shm";
constexpr char kFailed = '-';

class ShmBackend : public Backend {
 public:
  ShmBackend(std::unique_ptr<shm::Segment> segment, int rank)
      : segment_(std::move(segment)),
        rank_(rank),
        regions_(std::make_shared<shm::Regions>()),
        waiter_(*segment_),
        collectives_(*segment_, rank, waiter_, *regions_),
        exchange_(*segment_, rank, waiter_) {
    shm::JoinBarriers();
    shm::Control& control = segment_->control(rank);
    control.process = shm::ThisProcess();
    control.has_joined.store(1, std::memory_order_release);
  }
  ~ShmBackend() override { Close(); }

  void Run(const Operation& operation, const Call& call, Deadline deadline) override {
    waiter_.CheckStopped();
    collectives_.Run(operation, call, deadline);
  }
  void Exchange(std::span<const Operation> operations, Deadline deadline) override {
    waiter_.CheckStopped();
    exchange_.Run(operations, deadline);
  }
  bool Post(const Operation& operation, const Call& call) override {
    return collectives_.Post(operation, call);
  }
  ops::Memory Allocate(int64_t num_bytes) override { return regions_->Allocate(num_bytes); }
  void Stop() override { waiter_.Stop(); }
  void Close() override { segment_->Close(rank_); }

 private:
  const std::unique_ptr<shm::Segment> segment_;
  const int rank_;
  const std::shared_ptr<shm::Regions> regions_;  // memory outlives the backend
  shm::Waiter waiter_;
  shm::Collectives collectives_;
  shm::Exchange exchange_;
};

void CheckOneHost(const Meeting& meeting) {
  const std::string& host = meeting.members[meeting.rank()].host;
  for (int rank = 0; rank < meeting.size(); ++rank) {
    if (meeting.members[rank].host == host) continue;
    throw std::invalid_argument(
        fmt::format("backend 'shm' is for ranks of one host, but rank {} and rank {} are on two; "
                    "'auto' or 'gloo' would work",
                    meeting.rank(), rank));
  }
}

// When that fails, the others learn why.
std::unique_ptr<shm::Segment> CreateSegment(const Meeting& meeting) {
  try {
    return shm::Segment::Create(meeting.size());
  } catch (const std::exception& error) {
    try {
      meeting.store->Set(kSegmentKey, kFailed + std::string(error.what()),
                         TimeLeft(meeting.deadline));
    } catch (const std::exception&) {
      // What went wrong first is what counts.
    }
    throw;
  }
}

std::unique_ptr<shm::Segment> OpenSegment(const Meeting& meeting) {
  if (meeting.rank() == 0) {
    std::unique_ptr<shm::Segment> segment = CreateSegment(meeting);
    meeting.store->Set(kSegmentKey, segment->name(), TimeLeft(meeting.deadline));
    return segment;
  }
  std::string name;
  try {
    name = meeting.store->Get(kSegmentKey, TimeLeft(meeting.deadline));
  } catch (const TimeoutError&) {
    throw TimeoutError("rank 0 didn't set up the shared memory");
  }
  if (name.starts_with(kFailed)) {
    throw PeerLostError("lost rank 0: it couldn't set up the shared memory: " + name.substr(1), 0);
  }
  auto segment = shm::Segment::Attach(name, meeting.size());
  if (segment == nullptr) throw PeerLostError("lost rank 0: its shared memory is gone", 0);
  return segment;
}

}  // namespace

std::unique_ptr<Backend> MakeShmBackend(const Meeting& meeting) {
  CheckOneHost(meeting);
  return std::make_unique<ShmBackend>(OpenSegment(meeting), meeting.rank());
}

}  // namespace ddp
