// GradientAverager: averages gradients that a program keeps in arrays of its own, while it still
// calculates others: what DistributedDataParallel does for this library's modules, for simulations,
// libtorch, hand-written kernels.
//
//   ddp::GradientAverager averager(*group, {{"w1", {w1_grad, n1}}, {"w2", {w2_grad, n2}}});
//   for (...) {
//     CalculateGradient(w2_grad);  averager.Ready("w2");  // leaves as soon as its bucket is full
//     CalculateGradient(w1_grad);  averager.Ready("w1");
//     averager.Wait();             // both are the average over the ranks, bit-equal on all of them
//   }
//
// Arrays are registered in the order in which the model uses them: buckets are filled in reverse
// order, as gradients come, and leave in one fixed order on all ranks. The names only have to be
// unique. Every rank registers the same names, sizes and dtypes, in the same order.
//
// An array that has a bucket of its own is reduced where it is. Several in one bucket are copied
// into it by Ready() and out again by Wait(). An array that is given without memory (a null
// pointer) gets its memory inside the bucket, and nothing is copied: array(i).data, zeros at first.
//
// To add up the gradients of several batches, call Ready() and Wait() for the last one only.
//
// Memory that was registered belongs to the caller, must live as long as the averager, and must not
// be touched between Ready() and the end of Wait(). The group must live as long as the averager is
// used. One thread at a time calls an averager and operations of its group.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ops/tensor/tensor.h"

namespace ddp {

class BucketQueue;
struct BucketPlan;

struct NamedArray {
  std::string name;
  Buffer array;
};

struct GradientAveragerOptions {
  // A bucket is closed when the next gradient would make it larger; one larger gradient has a
  // bucket of its own. The first bucket to travel is small, so that it leaves early.
  int64_t bucket_bytes = 25 << 20;
  int64_t first_bucket_bytes = 1 << 20;
};

class GradientAverager {
 public:
  // Throws MismatchError on every rank unless all register the same: it names the first array that
  // differs and the ranks of each version. Throws std::invalid_argument for no arrays, a name that
  // comes twice, a negative size, and elements that aren't floating point.
  GradientAverager(ProcessGroup& group, std::vector<NamedArray> arrays,
                   const GradientAveragerOptions& options = {});
  // Aborts the group when some arrays are ready and Wait() hasn't been called: the other ranks are
  // waiting for the rest.
  ~GradientAverager();
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;

  int num_arrays() const { return static_cast<int>(arrays_.size()); }
  int num_buckets() const { return static_cast<int>(buckets_.size()); }
  // Where a gradient is; by index in the order of registration, or by name.
  Buffer array(int index) const { return BufferOf(Checked(index).tensor); }
  Buffer array(std::string_view name) const { return array(IndexOf(name)); }

  // This rank's gradient is complete. Throws std::logic_error when it is ready already, and
  // std::invalid_argument for an array that isn't there; neither changes anything.
  void Ready(int index);
  void Ready(std::string_view name) { Ready(IndexOf(name)); }

  // Returns when all gradients are the average; the next round may begin. When some gradient isn't
  // ready on some rank, throws std::logic_error on every rank, with their names and ranks: what the
  // arrays hold then is undefined. Throws what an operation of the group throws.
  void Wait();

 private:
  struct Array {
    std::string name;
    ops::Tensor tensor;  // where the caller finds the gradient
    ops::Tensor place;   // in the bucket; undefined where the tensor itself is there
    int bucket = 0;
    bool is_ready = false;
  };
  struct Bucket {
    ops::Tensor whole;  // all that travels
    std::vector<Array*> arrays;
  };

  void MakeBuckets(const GradientAveragerOptions& options);
  ops::Tensor Place(const BucketPlan& plan);
  std::shared_ptr<Work> Send(int bucket);
  int IndexOf(std::string_view name) const;
  const Array& Checked(int index) const;
  std::vector<std::string> Missing() const;
  [[noreturn]] void ThrowMissing(const std::vector<std::string>& mine);

  ProcessGroup& group_;
  std::vector<Array> arrays_;
  std::unordered_map<std::string, int> indices_;
  std::vector<Bucket> buckets_;
  // One element that travels with the last bucket: whether some rank's gradients aren't all ready.
  ops::Tensor trouble_flag_;
  bool in_round_ = false;
  std::unique_ptr<BucketQueue> queue_;
};

// Overwrites every rank's arrays with rank 0's: initial values. Every rank gives the same names,
// sizes and dtypes, or all get MismatchError.
void BroadcastFromRank0(ProcessGroup& group, const std::vector<NamedArray>& arrays);

}  // namespace ddp
