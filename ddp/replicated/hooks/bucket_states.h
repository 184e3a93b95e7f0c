// BucketStates: what a hook remembers of each bucket from one step to the next, such as what it
// rounded off. It is void, and made anew, when parameters are spread over the buckets anew.
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <utility>

#include "ddp/replicated/communication_hook.h"

namespace ddp {

template <class State>
class BucketStates {
 public:
  // The state of this bucket; at first, State(args...). Throws std::logic_error when what has the
  // bucket's index was of another size: each DistributedDataParallel needs a hook of its own.
  template <class... Args>
  std::shared_ptr<State> Of(const GradientBucket& bucket, const Args&... args) {
    if (std::exchange(plan_, bucket.plan) != bucket.plan) entries_.clear();
    const int64_t num_elements = bucket.gradients.num_elements();
    Entry& entry = entries_[bucket.index];
    if (!entry.state) entry = {std::make_shared<State>(args...), num_elements};
    if (entry.num_elements != num_elements) {
      throw std::logic_error(fmt::format(
          "bucket {} had {} elements, now {}: does one communication hook serve two models?",
          bucket.index, entry.num_elements, num_elements));
    }
    return entry.state;
  }

 private:
  struct Entry {
    std::shared_ptr<State> state;
    int64_t num_elements = 0;
  };

  int plan_ = 0;
  std::map<int, Entry> entries_;  // by index of the bucket
};

}  // namespace ddp
