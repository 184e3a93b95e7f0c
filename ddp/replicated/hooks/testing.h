// For tests of hooks: made-up buckets, and groups that count what they are asked to send.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/replicated/communication_hook.h"
#include "ops/tensor/tensor.h"

namespace ddp {

// A group that stands before another, notes what is called and counts the bytes that this rank
// has to send for it, where every byte takes the shortest way: 2 (n - 1) / n times the buffer for
// an all-reduce among n ranks, n - 1 times the input for an all-gather, the others' blocks for an
// all-to-all. Knows these three.
class CountingGroup : public ProcessGroup {
 public:
  explicit CountingGroup(ProcessGroup& inner)
      : ProcessGroup(inner.rank(), inner.size()), inner_(inner) {}

  // "all_reduce float32[12]": what was called and what this rank put in.
  const std::vector<std::string>& calls() const { return calls_; }
  double bytes_sent() const { return bytes_sent_; }
  void Forget();

  std::string_view backend() const override { return inner_.backend(); }
  void MonitoredBarrier(Timeout timeout) override { inner_.MonitoredBarrier(timeout); }
  WorkPtr Coalesce(const std::function<void()>& issue) override { return inner_.Coalesce(issue); }
  std::unique_ptr<ProcessGroup> Split(int color, int key) override {
    return inner_.Split(color, key);
  }
  ops::Memory Allocate(int64_t num_bytes, const ops::Device& device) override {
    return inner_.Allocate(num_bytes, device);
  }
  void Abort(const std::string& reason) override { inner_.Abort(reason); }
  std::string WriteFlightRecord(const std::string& directory) const override {
    return inner_.WriteFlightRecord(directory);
  }

 private:
  WorkPtr Issue(Operation operation, Timeout timeout) override;
  double BytesSentBy(const Operation& operation) const;

  ProcessGroup& inner_;
  std::vector<std::string> calls_;
  double bytes_sent_ = 0;
};

// A bucket of zeros with parts of these shapes, each followed by a gap of `gap` elements.
GradientBucket MakeBucket(const std::vector<ops::Shape>& shapes,
                          ops::DType dtype = ops::DType::kFloat32, int64_t gap = 3);

// Normal numbers times bucket.scale in the parts, others for each rank and step.
void FillParts(const GradientBucket& bucket, int rank, int step = 0);

// The sum over `size` ranks of what FillParts gives them, in float64.
std::vector<double> SumOfParts(const GradientBucket& bucket, int size, int step = 0);

// The rank's elements as bytes, for comparison of bits; and whether all ranks have the same.
bool RanksAgree(ProcessGroup& group, const ops::Tensor& tensor);

double MaxAbs(const std::vector<double>& values);
// Largest difference of an element.
double MaxError(const ops::Tensor& tensor, const std::vector<double>& expected);

}  // namespace ddp
