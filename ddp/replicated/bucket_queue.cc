#include "ddp/replicated/bucket_queue.h"

#include <exception>
#include <utility>

namespace ddp {

BucketQueue::BucketQueue(std::vector<int> num_parts, Send send)
    : num_parts_(std::move(num_parts)), send_(std::move(send)), num_pending_(num_parts_) {
  sent_.reserve(num_parts_.size());
}

void BucketQueue::SendFull() {
  while (num_sent() < size() && num_pending_[num_sent()] <= 0) sent_.push_back(send_(num_sent()));
}

void BucketQueue::Flush() {
  while (num_sent() < size()) sent_.push_back(send_(num_sent()));
}

void BucketQueue::Wait(const std::function<void(int)>& reduced) {
  try {
    for (int bucket = 0; bucket < num_sent(); ++bucket) {
      sent_[bucket]->Wait();
      if (reduced) reduced(bucket);
    }
  } catch (...) {
    End();
    throw;
  }
  Reset();
}

void BucketQueue::End() noexcept {
  for (const std::shared_ptr<Work>& work : sent_) {
    try {
      work->Wait();
    } catch (...) {
      // Another error is told, or nobody asks.
    }
  }
  Reset();
}

void BucketQueue::Reset() {
  sent_.clear();
  num_pending_ = num_parts_;
}

}  // namespace ddp
