// MPI_Allreduce.
//
//   mpirun -np RANKS mpi_all_reduce SIZES SECONDS
#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <exception>
#include <vector>

#include "tests/benchmarks/peers/all_reduce_peer.h"

namespace benchmarks {
namespace {

class MpiPeer : public AllReducePeer {
 public:
  MpiPeer() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  float* Buffer(int64_t num_elements) override {
    buffer_.resize(num_elements);
    return buffer_.data();
  }

  void AllReduce(int64_t num_elements) override {
    MPI_Allreduce(MPI_IN_PLACE, buffer_.data(), static_cast<int>(num_elements), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }

 private:
  int rank_ = 0, size_ = 1;
  std::vector<float> buffer_;
};

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  MPI_Init(&argc, &argv);
  try {
    benchmarks::MpiPeer peer;
    benchmarks::MeasureAllReduce(peer, {argv[1], std::atof(argv[2])});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
