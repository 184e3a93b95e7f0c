#include "ddp/replicated/reducer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <utility>

#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using ops::Tensor;

// Part of `whole`'s memory.
Tensor ViewAt(const Tensor& whole, int64_t offset_bytes, const ops::Shape& shape) {
  return Tensor::Wrap(ops::Memory(whole.memory(), whole.raw_data() + offset_bytes), shape,
                      whole.options());
}

std::string List(const std::vector<std::string>& names) {
  constexpr size_t kMost = 10;
  const auto end = names.begin() + std::min(names.size(), kMost);
  std::string list = fmt::format("'{}'", fmt::join(names.begin(), end, "', '"));
  if (names.size() > kMost) list += fmt::format(" and {} more", names.size() - kMost);
  return list;
}

}  // namespace

// Rides in the callback at the end of a Backward. When something throws, Backward drops the
// callback without calling it, and this notices.
class Reducer::Pass {
 public:
  explicit Pass(Reducer* reducer) : reducer_(reducer) {}
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  ~Pass() {
    if (reducer_ != nullptr) reducer_->Abandon();
  }

  void End() {
    reducer_->Finish();
    std::exchange(reducer_, nullptr)->ThrowTrouble();
  }

 private:
  Reducer* reducer_;
};

Reducer::Reducer(const std::vector<ops::NamedTensor>& parameters, ProcessGroup& group,
                 const BucketLimits& limits)
    : group_(group) {
  std::vector<ops::NamedTensor> trained;
  for (const ops::NamedTensor& parameter : parameters) {
    (RequiresGrad(parameter.tensor) ? trained : frozen_).push_back(parameter);
  }
  for (const auto& [name, tensor] : trained) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.name = name;
    parameter.tensor = tensor;
  }

  const std::vector<BucketPlan> plans = PlanBuckets(trained, limits);
  for (const BucketPlan& plan : plans) MakeBucket(plan, &plan == &plans.back());
  Reset();
  for (Parameter& parameter : parameters_) {
    PlaceGrad(parameter.tensor, parameter.place);
    parameter.hook =
        AddGradHook(parameter.tensor, [this, p = &parameter](const Tensor&) { OnGradient(*p); });
  }
}

Reducer::~Reducer() {
  for (const Parameter& parameter : parameters_) RemoveGradHook(parameter.tensor, parameter.hook);
}

void Reducer::MakeBucket(const BucketPlan& plan, bool last) {
  const int64_t num_elements = plan.num_bytes / SizeOf(plan.dtype);
  const int64_t num_flags = last ? 1 : 0;
  const int64_t num_bytes = plan.num_bytes + num_flags * SizeOf(plan.dtype);
  Bucket bucket;
  bucket.memory = Tensor::Wrap(group_.Allocate(num_bytes, plan.device), {num_elements + num_flags},
                               {plan.dtype, plan.device});
  bucket.memory.FillZero();  // the gaps between gradients travel too
  bucket.num_parameters = static_cast<int>(plan.slots.size());
  for (const BucketPlan::Slot& slot : plan.slots) {
    Parameter& parameter = parameters_[slot.parameter];
    parameter.bucket = buckets_.size();
    parameter.place = ViewAt(bucket.memory, slot.offset_bytes, parameter.tensor.shape());
  }
  if (last) trouble_flag_ = ViewAt(bucket.memory, plan.num_bytes, {});
  buckets_.push_back(std::move(bucket));
}

void Reducer::OnGradient(Parameter& parameter) {
  if (!synchronizes_) return;
  if (!in_pass_) {
    in_pass_ = true;
    ops::OnBackwardEnd([pass = std::make_shared<Pass>(this)] { pass->End(); });
  }
  if (std::exchange(parameter.ready, true)) {
    throw std::logic_error(fmt::format(
        "the gradient of parameter '{}' was completed twice in one Backward", parameter.name));
  }
  KeepInPlace(parameter);
  if (--buckets_[parameter.bucket].num_pending == 0) SendFullBuckets();
}

// SetGrad may have put another tensor in the bucket's stead.
void Reducer::KeepInPlace(const Parameter& parameter) {
  if (Grad(parameter.tensor).raw_data() != parameter.place.raw_data()) {
    PlaceGrad(parameter.tensor, parameter.place);
  }
}

void Reducer::SendFullBuckets() {
  while (sent_.size() < buckets_.size() && buckets_[sent_.size()].num_pending == 0) {
    const bool last = sent_.size() + 1 == buckets_.size();
    if (last && !(trouble_ = FindTrouble()).empty()) trouble_flag_.Fill(1);
    sent_.Add(group_.AllReduce(BufferOf(buckets_[sent_.size()].memory), ReduceOp::kAverage));
  }
}

// What this Backward didn't reach: a gradient from an earlier one, which counts, or zeros, so that
// no rank waits in vain.
void Reducer::FillIn() {
  for (const Parameter& parameter : parameters_) {
    if (parameter.ready) continue;
    if (Grad(parameter.tensor).defined()) {
      KeepInPlace(parameter);
    } else {
      parameter.place.FillZero();
    }
  }
  for (Bucket& bucket : buckets_) bucket.num_pending = 0;
  SendFullBuckets();
}

std::string Reducer::FindTrouble() const {
  std::vector<std::string> unreached, thawed;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.ready && !Grad(parameter.tensor).defined()) unreached.push_back(parameter.name);
  }
  for (const auto& [name, tensor] : frozen_) {
    if (RequiresGrad(tensor)) thawed.push_back(name);
  }
  std::vector<std::string> troubles;
  if (!unreached.empty()) {
    troubles.push_back(fmt::format(
        "no gradient for {} (the loss doesn't depend on it, or it was frozen or replaced)",
        List(unreached)));
  }
  if (!thawed.empty()) {
    troubles.push_back(
        fmt::format("{} requires a gradient, but was frozen when the model was wrapped; wrap it "
                    "again",
                    List(thawed)));
  }
  return fmt::format("{}", fmt::join(troubles, "; "));
}

void Reducer::Finish() {
  if (sent_.size() < buckets_.size()) FillIn();
  const auto start = std::chrono::steady_clock::now();
  sent_.Wait();
  exposed_seconds_ +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Reset();
}

void Reducer::ThrowTrouble() {
  if (trouble_flag_.Item() == 0) return;
  trouble_flag_.FillZero();
  const std::vector<std::string> troubles = group_.ExchangeBlobs(std::exchange(trouble_, ""));
  std::vector<std::string> told;
  for (size_t rank = 0; rank < troubles.size(); ++rank) {
    if (!troubles[rank].empty()) told.push_back(fmt::format("rank {}: {}", rank, troubles[rank]));
  }
  throw std::logic_error(
      fmt::format("Backward could not average all gradients: {}", fmt::join(told, "; ")));
}

void Reducer::Abandon() noexcept {
  try {
    // What it was can't be seen from here: a destructor on the way out.
    group_.Abort("an exception ended Backward before the gradients were averaged");
  } catch (...) {
    // The group has failed by itself; nobody waits for it.
  }
  sent_.End();
  Reset();
}

void Reducer::Reset() {
  in_pass_ = false;
  for (Parameter& parameter : parameters_) parameter.ready = false;
  for (Bucket& bucket : buckets_) bucket.num_pending = bucket.num_parameters;
}

}  // namespace ddp
