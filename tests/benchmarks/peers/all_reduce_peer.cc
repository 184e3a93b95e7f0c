#include "tests/benchmarks/peers/all_reduce_peer.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

#include "ddp/collectives/bench/plan.h"

namespace benchmarks {
namespace {

double Seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
double Now() { return Seconds(CLOCK_MONOTONIC); }
double CpuSeconds() { return Seconds(CLOCK_PROCESS_CPUTIME_ID); }

// The sum of all ranks' values, on all ranks; also a barrier.
double Sum(AllReducePeer& peer, double value) {
  float* const buffer = peer.Buffer(1);
  *buffer = static_cast<float>(value);
  peer.AllReduce(1);
  return *buffer;
}

void Check(AllReducePeer& peer, int64_t num_elements) {
  float* const buffer = peer.Buffer(num_elements);
  for (int64_t i = 0; i < num_elements; ++i) {
    buffer[i] = static_cast<float>(peer.rank() + 1 + i % 7);
  }
  peer.AllReduce(num_elements);
  const int size = peer.size();
  for (int64_t i = 0; i < num_elements; ++i) {
    if (buffer[i] != static_cast<float>(size * (size + 1) / 2 + size * (i % 7))) {
      throw std::runtime_error(
          fmt::format("rank {}: wrong sum at {} of {}", peer.rank(), i, num_elements));
    }
  }
}

void MeasureSize(AllReducePeer& peer, int64_t num_bytes, double seconds) {
  const auto num_elements = num_bytes / static_cast<int64_t>(sizeof(float));
  Check(peer, num_elements);
  float* const buffer = peer.Buffer(num_elements);
  std::fill_n(buffer, num_elements, 0.f);  // stays zero, however often
  for (int i = 0; i < 3; ++i) peer.AllReduce(num_elements);
  const double trial_start = Now();
  for (int i = 0; i < 2; ++i) peer.AllReduce(num_elements);
  const double once = (Now() - trial_start) / 2;
  const double wanted = std::clamp(seconds / once, 5.0, 3000.0);
  const auto num_runs = static_cast<int64_t>(Sum(peer, peer.rank() == 0 ? wanted : 0));

  std::fill_n(peer.Buffer(num_elements), num_elements, 0.f);
  Sum(peer, 0);
  std::fill_n(peer.Buffer(num_elements), num_elements, 0.f);
  std::vector<double> times(num_runs);
  const double cpu_before = CpuSeconds();
  for (double& time : times) {
    const double start = Now();
    peer.AllReduce(num_elements);
    time = Now() - start;
  }
  const double cpu = Sum(peer, CpuSeconds() - cpu_before) / static_cast<double>(num_runs);
  if (peer.rank() != 0) return;
  std::ranges::sort(times);
  fmt::print("{{\"bytes\": {}, \"us_median\": {:.3f}, \"us_cpu_all_ranks\": {:.3f}}}\n", num_bytes,
             times[num_runs / 2] * 1e6, cpu * 1e6);
  std::fflush(stdout);
}

}  // namespace

void MeasureAllReduce(AllReducePeer& peer, const PeerArguments& arguments) {
  for (const int64_t num_bytes : ddp::bench::ParseSizes(arguments.sizes)) {
    MeasureSize(peer, num_bytes, arguments.seconds);
  }
}

int ForkRanks(int num_ranks, const std::function<void(int rank)>& run_rank) {
  for (int rank = 0; rank < num_ranks; ++rank) {
    if (fork() != 0) continue;
    try {
      run_rank(rank);
      _exit(0);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      _exit(1);
    }
  }
  int result = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    int status = 0;
    wait(&status);
    if (status != 0) result = 1;
  }
  return result;
}

}  // namespace benchmarks
