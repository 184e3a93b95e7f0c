#include "launch/topology/ports.h"

namespace launch {
namespace {

constexpr int kLowestPort = 1024;
// Services that everybody knows live below, where there is room enough above.
constexpr int kLowestQuietPort = 10000;
// Between the steps of a job; prime, so that steps don't meet the next jobs in a pattern.
constexpr int64_t kStepStride = 1009;

}  // namespace

std::vector<int> CandidatePorts(int64_t job_id, int64_t step_id, int first_ephemeral_port) {
  const int lowest = first_ephemeral_port >= 2 * kLowestQuietPort ? kLowestQuietPort : kLowestPort;
  const int64_t span = first_ephemeral_port - lowest;
  if (span < kNumCandidatePorts) return {};
  const int64_t first = job_id % span + step_id % span * kStepStride;
  std::vector<int> ports;
  for (int i = 0; i < kNumCandidatePorts; ++i) {
    // Far apart, so that a job doesn't fall back on the first port of the next one.
    ports.push_back(lowest + static_cast<int>((first + i * (span / kNumCandidatePorts)) % span));
  }
  return ports;
}

}  // namespace launch
