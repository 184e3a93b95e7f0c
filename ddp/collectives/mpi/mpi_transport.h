// MpiTransport: messages over the non-blocking operations of MPI. Waits poll, as MPI makes progress
// only when it is called: briefly at full speed, then ever more politely.
//
// MPI doesn't say when a peer leaves. So a rank that goes, in good order or not, sends every peer a
// farewell, which waits look for; it stays in MPI's queue, under a tag that no other group has. (A
// process that dies is mpirun's affair: it ends the job.)
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ddp/collectives/messages/transport.h"
#include "ddp/collectives/mpi/runtime.h"

namespace ddp::mpi {

class MpiTransport : public Transport {
 public:
  // `first_tag` is that of ReserveTags(), the same on all ranks. `world_ranks` are their ranks in
  // MPI_COMM_WORLD.
  MpiTransport(int first_tag, int rank, std::vector<int> world_ranks);
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
  bool HasMessage(int peer, int tag);
  void SayFarewell();

  int TagOf(Slot slot) const { return first_tag_ + static_cast<int>(slot); }
  int FarewellTag() const { return first_tag_ + kTagsPerGroup - 1; }

  const int first_tag_;
  const std::vector<int> world_ranks_;
  std::atomic<bool> stopped_ = false;
  std::mutex farewell_mutex_;
  bool said_farewell_ = false;  // guarded by farewell_mutex_
};

}  // namespace ddp::mpi
