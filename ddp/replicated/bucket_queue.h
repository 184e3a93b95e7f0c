// BucketQueue: sends buckets of gradients, each as soon as all of its parts are ready and the
// buckets ahead of it have left, so that all ranks send them in the same order.
//
//   BucketQueue queue({2, 3}, [&](int bucket) { return group.AllReduce(...); });
//   queue.Tick(0); queue.Tick(0);   // bucket 0 leaves
//   queue.Flush();                  // and the rest, ready or not
//   queue.Wait();                   // all have been reduced; the next round may begin
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ddp/collectives/process_group.h"

namespace ddp {

class BucketQueue {
 public:
  using Send = std::function<std::shared_ptr<Work>(int bucket)>;

  // `num_parts`: of each bucket.
  BucketQueue(std::vector<int> num_parts, Send send);
  // Waits, quietly.
  ~BucketQueue() { End(); }
  BucketQueue(const BucketQueue&) = delete;
  BucketQueue& operator=(const BucketQueue&) = delete;

  int size() const { return static_cast<int>(num_parts_.size()); }
  int num_sent() const { return static_cast<int>(sent_.size()); }

  // One more part of the bucket is ready.
  void Tick(int bucket) {
    if (--num_pending_[bucket] == 0) SendFull();
  }
  // Sends all that has not left yet.
  void Flush();
  // Returns when all that was sent is reduced, and begins a new round. `reduced(bucket)` is called
  // for each in turn, while later ones may still travel. When something fails, throws it after all
  // have ended: buffers are in use until then.
  void Wait(const std::function<void(int)>& reduced = {});
  // The same without throwing, for giving a round up.
  void End() noexcept;

 private:
  void SendFull();
  void Reset();

  const std::vector<int> num_parts_;
  const Send send_;
  std::vector<int> num_pending_;             // parts that aren't ready, by bucket
  std::vector<std::shared_ptr<Work>> sent_;  // the first buckets
};

}  // namespace ddp
