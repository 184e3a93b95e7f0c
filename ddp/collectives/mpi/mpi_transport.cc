#include "ddp/collectives/mpi/mpi_transport.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>

#include "ddp/collectives/mpi/runtime.h"

namespace ddp::mpi {
namespace {

// Slots are tags; this is one behind the last of them.
constexpr int kFarewellTag = 1000;
// MPI's counts are ints.
constexpr size_t kLargestMessage = size_t{1} << 30;
// What a peer sent before its farewell may arrive after it.
constexpr Duration kGrace = std::chrono::milliseconds(50);

// Polls at full speed, then lets others have the core, then sleeps.
void Pause(int polls) {
  constexpr int kBusyPolls = 200, kYieldingPolls = 2000;
  if (polls < kBusyPolls) return;
  if (polls < kYieldingPolls) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(polls < 2 * kYieldingPolls ? 20 : 200));
  }
}

}  // namespace

class MpiTransport::MpiChannel : public Channel {
 public:
  MpiChannel(MpiTransport* transport, int peer, void* data)
      : Channel(peer), transport_(transport), data_(static_cast<std::byte*>(data)) {}

  ~MpiChannel() override {
    for (std::deque<MPI_Request>* const requests : {&receives_, &sends_}) {
      for (MPI_Request& request : *requests) {
        // A receive that nobody waits for any more, or a send of a group that has failed.
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
  }

  void Send(Slot slot, size_t offset, size_t num_bytes) override {
    ForEachPiece(offset, num_bytes, [&](std::byte* data, int count) {
      MPI_Request request;
      Check(MPI_Isend(data, count, MPI_BYTE, peer(), static_cast<int>(slot),
                      transport_->communicator_, &request),
            "MPI_Isend");
      sends_.push_back(request);
    });
  }

  void Receive(Slot slot, size_t offset, size_t num_bytes) override {
    int num_pieces = 0;
    ForEachPiece(offset, num_bytes, [&](std::byte* data, int count) {
      MPI_Request request;
      Check(MPI_Irecv(data, count, MPI_BYTE, peer(), static_cast<int>(slot),
                      transport_->communicator_, &request),
            "MPI_Irecv");
      receives_.push_back(request);
      ++num_pieces;
    });
    pieces_.push_back(num_pieces);
  }

  bool AwaitReceiveUnlessLost(std::span<const int> needed, Deadline deadline) override {
    while (pieces_.front() > 0) {
      if (!transport_->Await(receives_.front(), peer(), needed, deadline)) return false;
      receives_.pop_front();
      --pieces_.front();
    }
    pieces_.pop_front();
    return true;
  }

  void AwaitReceive(Deadline deadline) override { AwaitReceiveUnlessLost({}, deadline); }

  void AwaitReceives(Deadline deadline) override {
    while (!pieces_.empty()) AwaitReceive(deadline);
  }

  void AwaitSends(Deadline deadline) override {
    for (; !sends_.empty(); sends_.pop_front()) {
      transport_->Await(sends_.front(), peer(), {}, deadline);
    }
  }

 private:
  // An empty message is one piece too.
  template <class Function>
  void ForEachPiece(size_t offset, size_t num_bytes, Function function) {
    size_t done = 0;
    do {
      const size_t count = std::min(num_bytes - done, kLargestMessage);
      function(data_ + offset + done, static_cast<int>(count));
      done += count;
    } while (done < num_bytes);
  }

  MpiTransport* const transport_;
  std::byte* const data_;
  std::deque<MPI_Request> sends_;
  std::deque<MPI_Request> receives_;
  std::deque<int> pieces_;  // of each message that is to be received
};

MpiTransport::MpiTransport(MPI_Comm communicator, uint64_t group_id, int rank, int size)
    : Transport(rank, size), communicator_(communicator), group_id_(group_id), left_(size, false) {}

MpiTransport::~MpiTransport() {
  SayFarewell();
  std::lock_guard lock(farewell_mutex_);
  for (MPI_Request& request : farewells_) MPI_Request_free(&request);
  if (!stopped_) MPI_Comm_free(&communicator_);
}

std::unique_ptr<Channel> MpiTransport::Open(int peer, void* data, size_t, Deadline) {
  return std::make_unique<MpiChannel>(this, peer, data);
}

std::optional<int> MpiTransport::FindLost(std::span<const int> peers) {
  LookForFarewells();
  const auto found = std::ranges::find_if(peers, [this](int peer) { return left_[peer]; });
  return found == peers.end() ? std::nullopt : std::optional(*found);
}

void MpiTransport::Close() {
  // A peer may be gone without a word: MPI_Finalize would wait for it.
  SkipFinalize();
  SayFarewell();
}

void MpiTransport::SayFarewell() {
  std::lock_guard lock(farewell_mutex_);
  if (!farewells_.empty()) return;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    MPI_Isend(&group_id_, 1, MPI_UINT64_T, peer, kFarewellTag, communicator_,
              &farewells_.emplace_back());
  }
}

void MpiTransport::LookForFarewells() {
  for (;;) {
    int found = 0;
    MPI_Status status;
    Check(MPI_Iprobe(MPI_ANY_SOURCE, kFarewellTag, communicator_, &found, &status), "MPI_Iprobe");
    if (found == 0) return;
    uint64_t group_id = 0;
    Check(MPI_Recv(&group_id, 1, MPI_UINT64_T, status.MPI_SOURCE, kFarewellTag, communicator_,
                   MPI_STATUS_IGNORE),
          "MPI_Recv");
    if (group_id == group_id_) left_[status.MPI_SOURCE] = true;
  }
}

bool MpiTransport::Await(MPI_Request& request, int peer, std::span<const int> needed,
                         Deadline deadline) {
  const auto is_done = [&] {
    int done = 0;
    Check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  };
  return Poll(is_done, {&peer, 1}, needed, deadline);
}

int MpiTransport::ReceiveFromAny(std::span<const int> peers, Slot slot, void* data,
                                 size_t num_bytes, Deadline deadline) {
  const int tag = static_cast<int>(slot);
  int sender = -1;
  const auto has_come = [&] {
    for (const int peer : peers) {
      int found = 0;
      Check(MPI_Iprobe(peer, tag, communicator_, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
      if (found != 0) sender = peer;
    }
    return sender >= 0;
  };
  Poll(has_come, peers, {}, deadline);
  Check(MPI_Recv(data, static_cast<int>(num_bytes), MPI_BYTE, sender, tag, communicator_,
                 MPI_STATUS_IGNORE),
        "MPI_Recv");
  return sender;
}

template <class IsDone>
bool MpiTransport::Poll(IsDone is_done, std::span<const int> peers, std::span<const int> needed,
                        Deadline deadline) {
  constexpr int kPollsBetweenLooks = 64;
  std::optional<Deadline> last_chance;
  for (int polls = 0;; ++polls) {
    if (is_done()) return true;
    if (stopped_) throw Stopped();
    if (polls % kPollsBetweenLooks == kPollsBetweenLooks - 1) {
      const auto now = Clock::now();
      const std::optional<int> lost = FindLost(peers);
      if (!last_chance && (lost || FindLost(needed))) last_chance = now + kGrace;
      if (last_chance && now >= *last_chance) {
        if (!lost) return false;
        throw PeerTrouble(PeerTrouble::kLost, {*lost});
      }
      if (now >= deadline) {
        throw PeerTrouble(PeerTrouble::kTimedOut, std::vector<int>(peers.begin(), peers.end()));
      }
    }
    Pause(polls);
  }
}

}  // namespace ddp::mpi
