#include "ddp/replicated/gradient_buckets.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
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

}  // namespace

bool ReducedParameter::HasGradient() const {
  return Grad(tensor).defined() || SparseGrad(tensor).defined();
}

void ReducedParameter::KeepInPlace() const {
  if (!sparse && Grad(tensor).raw_data() != place.raw_data()) PlaceGrad(tensor, place);
}

std::vector<size_t> UsualOrder(std::span<const ReducedParameter> parameters) {
  std::vector<size_t> order;
  for (size_t i = parameters.size(); i-- > 0;) {
    if (parameters[i].trained && !parameters[i].sparse) order.push_back(i);
  }
  return order;
}

void GradientBuckets::Fill(std::span<ReducedParameter> parameters, std::vector<size_t> order,
                           const Tail& tail) {
  order_ = std::move(order);
  const std::vector<size_t> planned(order_.rbegin(), order_.rend());
  std::vector<ops::NamedTensor> tensors;
  for (size_t i : planned) tensors.push_back({parameters[i].name, parameters[i].tensor});
  std::vector<BucketPlan> plans = PlanBuckets(tensors, limits_);
  if (plans.empty()) plans.emplace_back();  // for the tail

  ++num_fillings_;
  buckets_.clear();
  for (const BucketPlan& plan : plans) {
    const bool has_tail = &plan == &plans.back() && tail.rides;
    Add(plan, parameters, planned, has_tail ? tail.num_elements : 0);
    buckets_.back().gradients.num_buckets = static_cast<int>(plans.size());
  }
  const Tensor& last = buckets_.back().memory;
  tail_ = tail.rides ? last.Slice(last.num_elements() - tail.num_elements, last.num_elements())
                     : Tensor::Zeros({tail.num_elements});
}

void GradientBuckets::Add(const BucketPlan& plan, std::span<ReducedParameter> parameters,
                          const std::vector<size_t>& planned, int64_t num_in_tail) {
  const int64_t num_elements = plan.num_bytes / SizeOf(plan.dtype);
  Bucket& bucket = buckets_.emplace_back();
  bucket.memory =
      Tensor::Wrap(group_.Allocate(plan.num_bytes + num_in_tail * SizeOf(plan.dtype), plan.device),
                   {num_elements + num_in_tail}, {plan.dtype, plan.device});
  bucket.memory.FillZero();  // the gaps between gradients travel too
  bucket.gradients.index = static_cast<int>(buckets_.size()) - 1;
  bucket.gradients.plan = num_fillings_;
  bucket.gradients.gradients = bucket.memory.Slice(0, num_elements);
  for (const BucketPlan::Slot& slot : plan.slots) {
    const size_t index = planned[slot.parameter];
    ReducedParameter& parameter = parameters[index];
    parameter.bucket = buckets_.size() - 1;
    parameter.place = ViewAt(bucket.memory, slot.offset_bytes, parameter.tensor.shape());
    PlaceGrad(parameter.tensor, parameter.place);
    bucket.gradients.parts.push_back({parameter.name, parameter.place});
    bucket.trained.push_back({parameter.name, parameter.tensor});
    bucket.parameters.push_back(index);
  }
}

std::string GradientBuckets::Describe() const {
  std::string text;
  for (const Bucket& bucket : buckets_) {
    std::vector<std::string_view> names;
    for (const ops::NamedTensor& part : bucket.gradients.parts) names.push_back(part.name);
    const Tensor& gradients = bucket.gradients.gradients;
    text += fmt::format("bucket {}: {} bytes of {}: {}\n", bucket.gradients.index,
                        gradients.num_bytes(), Name(gradients.dtype()), fmt::join(names, ", "));
  }
  return text;
}

}  // namespace ddp
