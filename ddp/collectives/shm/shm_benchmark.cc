// All-reduce between processes of this host: float32 sums, in place, by size.
//   shm_benchmark [--nproc=2] [--seconds=0.3] [--max_bytes=67108864]
// "posted" operations go through Post, as a group's do. Rank 0's medians, in us.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "ddp/collectives/shm/shm_backend.h"
#include "ddp/store/file_store.h"

ABSL_FLAG(int, nproc, 2, "Processes.");
ABSL_FLAG(double, seconds, 0.3, "Time for each size.");
ABSL_FLAG(int64_t, max_bytes, 64 << 20, "Largest buffer.");

namespace ddp {
namespace {

struct Rank {
  std::unique_ptr<Backend> backend;
  int rank = 0;
  int64_t sequence_number = 0;

  void Run(const Operation& operation) {
    const Call call = CallOf(operation, ++sequence_number);
    backend->Post(operation, call);
    backend->Run(operation, call, Clock::now() + kDefaultTimeout);
  }
};

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

double MedianMicroseconds(Rank& rank, const Buffer& buffer) {
  const Operation all_reduce{.kind = OperationKind::kAllReduce, .input = buffer, .output = buffer};
  const auto time = [&] {
    const auto start = Clock::now();
    rank.Run(all_reduce);
    return Seconds(Clock::now() - start);
  };
  const double once = (time(), time(), time());
  float num_times =
      static_cast<float>(std::clamp(absl::GetFlag(FLAGS_seconds) / once, 5.0, 3000.0));
  const Buffer agreed{&num_times, 1};
  rank.Run({.kind = OperationKind::kBroadcast, .output = agreed});
  std::vector<double> times(static_cast<int>(num_times));
  for (double& t : times) t = time();
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  return times[times.size() / 2] * 1e6;
}

void Measure(Rank& rank) {
  const int64_t max_bytes = absl::GetFlag(FLAGS_max_bytes);
  std::vector<float> own(max_bytes / sizeof(float));
  const ops::Memory shared = rank.backend->Allocate(max_bytes);
  if (rank.rank == 0) fmt::print("{:>10} {:>10} {:>10}\n", "bytes", "staged", "direct");
  for (int64_t bytes = 4; bytes <= max_bytes; bytes *= 4) {
    const int64_t num_elements = bytes / 4;
    const double staged = MedianMicroseconds(rank, {own.data(), num_elements});
    const double direct = MedianMicroseconds(rank, {shared.get(), num_elements});
    if (rank.rank == 0) fmt::print("{:>10} {:>10.2f} {:>10.2f}\n", bytes, staged, direct);
    std::fflush(stdout);
  }
}

void RunRank(int rank, int size, const std::string& store_path) {
  Meeting meeting;
  meeting.options.rank = rank;
  meeting.options.world_size = size;
  meeting.store = std::make_shared<FileStore>(store_path);
  meeting.members.resize(size);
  meeting.deadline = DeadlineAfter(kDefaultTimeout);
  Rank self{MakeShmBackend(meeting), rank};
  self.Run({.kind = OperationKind::kJoin});
  Measure(self);
}

int Main() {
  char directory[] = "/tmp/shm_benchmark_XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  const int size = absl::GetFlag(FLAGS_nproc);
  for (int rank = 0; rank < size; ++rank) {
    if (fork() != 0) continue;
    RunRank(rank, size, std::string(directory) + "/store");
    std::_Exit(0);
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) failed |= status;
  std::filesystem::remove_all(directory);
  return failed != 0;
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return ddp::Main();
}
