// The least that an all-reduce between processes of one machine costs: plain loops over shared
// memory, without a library, without checks and without deadlines.
//
//   floor_all_reduce direct|staged RANKS SIZES SECONDS
//
// Direct: the ranks' buffers lie in shared memory; each rank sums its slice of all buffers and
// writes the sum into all of them. Staged: the buffers are each rank's own; it copies its values
// into shared memory, sums its slice, and copies the whole result out.
#include <emmintrin.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "ddp/collectives/bench/plan.h"
#include "ops/cpu/isa.h"
#include "tests/benchmarks/floor_kernels.h"
#include "tests/benchmarks/peers/all_reduce_peer.h"

namespace benchmarks {
namespace {

// Elements at a time, so that sums are still in the nearest cache when they are written out.
constexpr int64_t kPiece = 8192;
// Slices begin at cache lines.
constexpr int64_t kLine = 64 / sizeof(float);

// Lives in shared memory.
class Barrier {
 public:
  // Spins a little and then yields, or yields at once where there are more ranks than cores.
  void Wait(int num_ranks) {
    const int generation = generation_.load(std::memory_order_acquire);
    if (num_here_.fetch_add(1, std::memory_order_acq_rel) == num_ranks - 1) {
      num_here_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    const int spins = num_ranks <= num_cores_ ? 2000 : 0;
    for (int i = 0; generation_.load(std::memory_order_acquire) == generation; ++i) {
      i < spins ? _mm_pause() : static_cast<void>(sched_yield());
    }
  }

 private:
  alignas(64) std::atomic<int> num_here_ = 0;
  alignas(64) std::atomic<int> generation_ = 0;
  const int num_cores_ = static_cast<int>(std::thread::hardware_concurrency());
};

void* MapShared(int64_t num_bytes) {
  void* const memory =
      mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  return memory;
}

// What the ranks share; mapped before they fork.
struct Shared {
  Shared(int num_ranks, int64_t num_bytes) : barrier(*new (MapShared(sizeof(Barrier))) Barrier) {
    for (int rank = 0; rank < num_ranks; ++rank) {
      buffers.push_back(static_cast<float*>(MapShared(num_bytes)));
    }
    result = static_cast<float*>(MapShared(num_bytes));
  }

  Barrier& barrier;
  std::vector<float*> buffers;  // by rank
  float* result;                // of staged sums
};

class FloorPeer : public AllReducePeer {
 public:
  FloorPeer(int rank, bool staged, const Shared& shared)
      : rank_(rank), staged_(staged), shared_(shared) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(shared_.buffers.size()); }

  float* Buffer(int64_t num_elements) override {
    if (!staged_) return shared_.buffers[rank_];
    own_.resize(num_elements);
    return own_.data();
  }

  void AllReduce(int64_t num_elements) override {
    const int64_t num_bytes = num_elements * static_cast<int64_t>(sizeof(float));
    if (staged_) std::memcpy(shared_.buffers[rank_], own_.data(), num_bytes);
    shared_.barrier.Wait(size());
    SumSlice(num_elements);
    shared_.barrier.Wait(size());
    if (!staged_) return;
    std::memcpy(own_.data(), shared_.result, num_bytes);
    shared_.barrier.Wait(size());
  }

 private:
  void SumSlice(int64_t num_elements) {
    const auto& buffers = shared_.buffers;
    const int64_t begin = num_elements * rank_ / size() / kLine * kLine;
    const int64_t end =
        rank_ == size() - 1 ? num_elements : num_elements * (rank_ + 1) / size() / kLine * kLine;
    float* const sums = staged_ ? shared_.result : buffers[0];
    for (int64_t first = begin; first < end; first += kPiece) {
      const int64_t count = std::min(kPiece, end - first);
      kernels_.add(sums + first, buffers[0] + first, buffers[1] + first, count);
      for (int k = 2; k < size(); ++k) {
        kernels_.add(sums + first, sums + first, buffers[k] + first, count);
      }
      for (int k = 1; k < size() && !staged_; ++k) {
        std::memcpy(buffers[k] + first, sums + first, count * sizeof(float));
      }
    }
  }

  const int rank_;
  const bool staged_;
  const Shared& shared_;
  std::vector<float> own_;
  const FloorKernels& kernels_ =
      ops::cpu::ForIsa(baseline::kFloorKernels, avx2::kFloorKernels, avx512::kFloorKernels);
};

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const bool staged = std::string(argv[1]) == "staged";
  const int num_ranks = std::max(std::atoi(argv[2]), 2);
  const benchmarks::PeerArguments arguments = {argv[3], std::atof(argv[4])};
  const benchmarks::Shared shared(num_ranks, ddp::bench::ParseSizes(arguments.sizes).back());
  return benchmarks::ForkRanks(num_ranks, [&](int rank) {
    benchmarks::FloorPeer peer(rank, staged, shared);
    benchmarks::MeasureAllReduce(peer, arguments);
  });
}
