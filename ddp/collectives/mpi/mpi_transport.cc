#include "ddp/collectives/mpi/mpi_transport.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

namespace ddp::mpi {
namespace {

// MPI's counts are ints.
constexpr size_t kLargestMessage = size_t{1} << 30;
// What a peer sent before its farewell may arrive after it.
constexpr Duration kGrace = std::chrono::milliseconds(50);
// For messages of a failed operation that have begun to arrive.
constexpr Duration kPatience = std::chrono::milliseconds(20);

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
    const Deadline deadline = DeadlineAfter(kPatience);
    for (MPI_Request& request : receives_) MPI_Cancel(&request);
    for (std::deque<MPI_Request>* const requests : {&receives_, &sends_}) {
      for (MPI_Request& request : *requests) Abandon(request, deadline);
    }
  }

  void Send(Slot slot, size_t offset, size_t num_bytes) override {
    ForEachPiece(offset, num_bytes, [&](std::byte* data, int count) {
      MPI_Request request;
      Check(MPI_Isend(data, count, MPI_BYTE, transport_->world_ranks_[peer()],
                      transport_->TagOf(slot), MPI_COMM_WORLD, &request),
            "MPI_Isend");
      sends_.push_back(request);
    });
  }

  void Receive(Slot slot, size_t offset, size_t num_bytes) override {
    int num_pieces = 0;
    ForEachPiece(offset, num_bytes, [&](std::byte* data, int count) {
      MPI_Request request;
      Check(MPI_Irecv(data, count, MPI_BYTE, transport_->world_ranks_[peer()],
                      transport_->TagOf(slot), MPI_COMM_WORLD, &request),
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
  // A receive that nobody waits for any more ends at once, unless its message has begun to arrive.
  // That, and a send of a group that has failed, may end by the deadline; or else with MPI.
  static void Abandon(MPI_Request& request, Deadline deadline) {
    int done = 0;
    for (int polls = 0;; ++polls) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0) return;
      if (Clock::now() >= deadline) break;
      Pause(polls);
    }
    MPI_Request_free(&request);
  }

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

MpiTransport::MpiTransport(int first_tag, int rank, std::vector<int> world_ranks)
    : Transport(rank, static_cast<int>(world_ranks.size())),
      first_tag_(first_tag),
      world_ranks_(std::move(world_ranks)) {}

MpiTransport::~MpiTransport() { SayFarewell(); }

std::unique_ptr<Channel> MpiTransport::Open(int peer, void* data, size_t, Deadline) {
  return std::make_unique<MpiChannel>(this, peer, data);
}

std::optional<int> MpiTransport::FindLost(std::span<const int> peers) {
  const auto found =
      std::ranges::find_if(peers, [this](int peer) { return HasMessage(peer, FarewellTag()); });
  return found == peers.end() ? std::nullopt : std::optional(*found);
}

void MpiTransport::Close() {
  // A peer may be gone without a word: MPI_Finalize would wait for it.
  SkipFinalize();
  SayFarewell();
}

void MpiTransport::SayFarewell() {
  std::lock_guard lock(farewell_mutex_);
  if (std::exchange(said_farewell_, true)) return;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    MPI_Request request;
    if (MPI_Isend(nullptr, 0, MPI_BYTE, world_ranks_[peer], FarewellTag(), MPI_COMM_WORLD,
                  &request) == MPI_SUCCESS) {
      MPI_Request_free(&request);
    }
  }
}

bool MpiTransport::HasMessage(int peer, int tag) {
  int found = 0;
  Check(MPI_Iprobe(world_ranks_[peer], tag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE),
        "MPI_Iprobe");
  return found != 0;
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
  const int tag = TagOf(slot);
  int sender = -1;
  const auto has_come = [&] {
    for (const int peer : peers) {
      if (HasMessage(peer, tag)) sender = peer;
    }
    return sender >= 0;
  };
  Poll(has_come, peers, {}, deadline);
  Check(MPI_Recv(data, static_cast<int>(num_bytes), MPI_BYTE, world_ranks_[sender], tag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE),
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
