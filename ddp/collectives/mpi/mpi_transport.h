// MpiTransport: messages over the non-blocking operations of MPI. Waits poll, as MPI makes progress
// only when it is called: briefly at full speed, then ever more politely.
//
// MPI doesn't say when a peer leaves. So a rank that goes, in good order or not, sends every peer a
// farewell, which waits look for. (A process that dies is mpirun's affair: it ends the job.)
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ddp/collectives/messages/transport.h"

namespace ddp::mpi {

class MpiTransport : public Transport {
 public:
  // Owns `communicator`, whose ranks are the group's. `group_id` is the same on all of them, and no
  // other group's: MPI gives what it numbers communicators with to the next group, which must not
  // take the last farewells of this one for its own.
  MpiTransport(MPI_Comm communicator, uint64_t group_id, int rank, int size);
  ~MpiTransport() override;

  std::unique_ptr<Channel> Open(int peer, void* data, size_t num_bytes, Deadline deadline) override;
  int ReceiveFromAny(std::span<const int> peers, Slot slot, void* data, size_t num_bytes,
                     Deadline deadline) override;
  std::optional<int> FindLost(std::span<const int> peers) override;
  void Stop() override { stopped_ = true; }
  void Close() override;

 private:
  class MpiChannel;

  // Polls until `is_done()`; returns false when one of `needed` is lost first, throws PeerTrouble
  // when one of `peers` is. What a peer sent before it left counts as long as it may still arrive.
  template <class IsDone>
  bool Poll(IsDone is_done, std::span<const int> peers, std::span<const int> needed,
            Deadline deadline);
  bool Await(MPI_Request& request, int peer, std::span<const int> needed, Deadline deadline);
  void LookForFarewells();
  void SayFarewell();

  MPI_Comm communicator_;
  const uint64_t group_id_;
  std::atomic<bool> stopped_ = false;
  std::mutex farewell_mutex_;
  std::vector<bool> left_;              // the peers whose farewells came; of the thread that waits
  std::vector<MPI_Request> farewells_;  // guarded by farewell_mutex_
};

}  // namespace ddp::mpi
