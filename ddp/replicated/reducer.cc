#include "ddp/replicated/reducer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "ddp/collectives/reduce.h"
#include "ddp/errors.h"
#include "ddp/replicated/sparse_reduction.h"
#include "ops/autograd/grad.h"
#include "ops/optim/clip.h"

namespace ddp {
namespace {

using ops::Tensor;

constexpr int64_t kTroubleFlag = 0;  // in the tail; the marks of the parameters follow

// Part of `whole`'s memory.
Tensor ViewAt(const Tensor& whole, int64_t offset_bytes, const ops::Shape& shape) {
  return Tensor::Wrap(ops::Memory(whole.memory(), whole.raw_data() + offset_bytes), shape,
                      whole.options());
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
    std::exchange(reducer_, nullptr)->Settle();
  }

 private:
  Reducer* reducer_;
};

Reducer::Reducer(const std::vector<ops::NamedTensor>& parameters,
                 const std::vector<ops::nn::NamedHandle>& handles, ProcessGroup& group,
                 ReducerOptions options)
    : group_(group), options_(std::move(options)) {
  for (const auto& [name, tensor] : parameters) {
    Parameter& parameter = parameters_.emplace_back();
    parameter.name = name;
    parameter.tensor = tensor;
    parameter.trained = RequiresGrad(tensor);
    parameter.sparse = ExpectsSparseGrad(tensor);
  }
  for (const auto& [name, handle] : handles) {
    const auto parameter = std::ranges::find_if(
        parameters_, [&](const Parameter& p) { return p.tensor.IsSameAs(*handle); });
    if (parameter != parameters_.end()) {
      handles_.emplace_back(parameter - parameters_.begin(), handle);
    }
  }
  MakeBuckets(UsualOrder());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].hook =
        AddGradHook(parameters_[i].tensor, [this, i](const Tensor&) { OnGradient(i); });
  }
}

Reducer::~Reducer() {
  for (const Parameter& parameter : parameters_) RemoveGradHook(parameter.tensor, parameter.hook);
}

// Backward completes gradients in about the reverse order of registration.
std::vector<size_t> Reducer::UsualOrder() const {
  std::vector<size_t> order;
  for (size_t i = parameters_.size(); i-- > 0;) {
    if (parameters_[i].trained && !parameters_[i].sparse) order.push_back(i);
  }
  return order;
}

void Reducer::MakeBuckets(std::vector<size_t> order) {
  order_ = std::move(order);
  const std::vector<size_t> planned(order_.rbegin(), order_.rend());
  std::vector<ops::NamedTensor> tensors;
  for (size_t i : planned) tensors.push_back({parameters_[i].name, parameters_[i].tensor});
  std::vector<BucketPlan> plans = PlanBuckets(tensors, options_.limits);
  if (plans.empty()) plans.emplace_back();  // for the tail

  ++plan_;
  buckets_.clear();
  std::vector<int> num_expected;
  for (const BucketPlan& plan : plans) {
    MakeBucket(plan, planned, &plan == &plans.back());
    buckets_.back().gradients.num_buckets = static_cast<int>(plans.size());
    num_expected.push_back(
        static_cast<int>(std::ranges::count_if(buckets_.back().parameters, [&](size_t i) {
          return parameters_[i].expected.value_or(1) > 0;
        })));
  }
  // The last bucket waits for the end of the walk: whatever goes wrong on the way, no rank is done.
  ++num_expected.back();
  queue_.emplace(std::move(num_expected), [this](int bucket) { return SendBucket(bucket); });
}

void Reducer::MakeBucket(const BucketPlan& plan, const std::vector<size_t>& planned, bool last) {
  const int64_t num_elements = plan.num_bytes / SizeOf(plan.dtype);
  const int64_t num_in_tail = last && tail_rides() ? NumInTail() : 0;
  Bucket& bucket = buckets_.emplace_back();
  bucket.memory =
      Tensor::Wrap(group_.Allocate(plan.num_bytes + num_in_tail * SizeOf(plan.dtype), plan.device),
                   {num_elements + num_in_tail}, {plan.dtype, plan.device});
  bucket.memory.FillZero();  // the gaps between gradients travel too
  bucket.gradients.index = static_cast<int>(buckets_.size()) - 1;
  bucket.gradients.plan = plan_;
  bucket.gradients.gradients = bucket.memory.Slice(0, num_elements);
  for (const BucketPlan::Slot& slot : plan.slots) {
    const size_t index = planned[slot.parameter];
    Parameter& parameter = parameters_[index];
    parameter.bucket = buckets_.size() - 1;
    parameter.place = ViewAt(bucket.memory, slot.offset_bytes, parameter.tensor.shape());
    PlaceGrad(parameter.tensor, parameter.place);
    bucket.gradients.parts.push_back({parameter.name, parameter.place});
    bucket.trained.push_back({parameter.name, parameter.tensor});
    bucket.parameters.push_back(index);
  }
  if (last) {
    tail_ = num_in_tail > 0 ? bucket.memory.Slice(num_elements, num_elements + num_in_tail)
                            : Tensor::Zeros({NumInTail()});
  }
}

// The trouble flag and, where it matters who is used, a mark for each parameter.
int64_t Reducer::NumInTail() const {
  return 1 + (MayLackGradients() ? static_cast<int64_t>(parameters_.size()) : 0);
}

void Reducer::OnGradient(size_t index) {
  if (!synchronizes_) {
    parameters_[index].is_local = !parameters_[index].trained;
    return;
  }
  if (!in_pass_) Begin();
  Parameter& parameter = parameters_[index];
  ++parameter.completed;
  if (!parameter.trained) return;  // it has been thawed; FindChanges tells
  if (parameter.sparse) return;    // it travels behind the buckets
  if (!order_is_known_) arrivals_.push_back(index);
  KeepInPlace(parameter);
  if (!DefersAll() && parameter.completed == parameter.expected.value_or(1)) {
    NoteReady(parameter.bucket);
    queue_->Tick(static_cast<int>(parameter.bucket));
  }
}

// In the first Backward of a static graph nothing leaves before all is there.
bool Reducer::DefersAll() const { return options_.static_graph && !order_is_known_; }

void Reducer::Begin() {
  in_pass_ = true;
  if (options_.observer != nullptr) begun_ = Clock::now();
  ops::OnBackwardEnd([pass = std::make_shared<Pass>(this)] { pass->End(); });
  double weight = 1;
  if (options_.by_weight) {
    if (!weight_) findings_.errors.push_back("no weight was set for this Backward");
    weight = std::exchange(weight_, std::nullopt).value_or(0);
  }
  if (attendance_ != nullptr) {
    BeginAs(attendance_->Call(/*is_active=*/true, weight));
  } else {
    if (options_.by_weight) {
      group_.AllReduce({&weight, 1, ops::DType::kFloat64}, ReduceOp::kSum)->Wait();
    }
    BeginAs({.num_active = group_.size(), .weight = weight});
  }
}

void Reducer::BeginAs(const Attendance::Roll& roll) {
  first_active_ = roll.first_active;
  if (options_.by_weight) {
    scale_ = roll.weight > 0 ? 1 / roll.weight : 1;
  } else if (options_.hook || (attendance_ != nullptr && divides_by_active_)) {
    scale_ = 1.0 / (divides_by_active_ ? roll.num_active : group_.size());
  } else {
    scale_.reset();
  }
  if (options_.observer != nullptr) reports_.assign(buckets_.size(), {});
  // Those that a static graph doesn't reach hold no bucket up.
  for (const Parameter& parameter : parameters_) {
    if (parameter.trained && parameter.expected == 0) FillIn(parameter);
  }
}

void Reducer::Follow(const Attendance::Roll& roll) {
  in_pass_ = follows_ = findings_.follows = true;
  if (options_.observer != nullptr) begun_ = Clock::now();
  BeginAs(roll);
  for (const Bucket& bucket : buckets_) bucket.memory.FillZero();
  Finish();
  Settle();
}

// SetGrad may have put another tensor in the bucket's stead.
void Reducer::KeepInPlace(const Parameter& parameter) {
  if (parameter.sparse) return;
  if (Grad(parameter.tensor).raw_data() != parameter.place.raw_data()) {
    PlaceGrad(parameter.tensor, parameter.place);
  }
}

bool Reducer::HasGradient(const Parameter& parameter) const {
  return !follows_ && (Grad(parameter.tensor).defined() || SparseGrad(parameter.tensor).defined());
}

// What this Backward didn't reach: a gradient from an earlier one, which counts, or zeros.
void Reducer::FillIn(const Parameter& parameter) {
  if (HasGradient(parameter)) {
    KeepInPlace(parameter);
  } else if (!parameter.sparse) {
    parameter.place.FillZero();
  }
}

Reduction Reducer::AverageOfRanks() const {
  return scale_ ? PremultipliedSum(*scale_) : Reduction(ReduceOp::kAverage);
}

std::shared_ptr<Work> Reducer::SendBucket(int index) {
  const Bucket& bucket = buckets_[index];
  const bool last = index + 1 == queue_->size();
  if (options_.check_finite && !follows_) CheckFinite(bucket);
  if (last) FillTail();
  if (options_.observer != nullptr) reports_[index].started = Clock::now();
  if (!options_.hook) return group_.AllReduce(BufferOf(bucket.memory), AverageOfRanks());
  const Tensor& gradients = bucket.gradients.gradients;
  Multiply(gradients.dtype(), *scale_, gradients.raw_data(), gradients.raw_data(),
           gradients.num_elements());
  GradientBucket handed = bucket.gradients;
  handed.scale = *scale_;
  std::shared_ptr<Work> work = options_.hook(group_, handed);
  if (last) tail_work_ = group_.AllReduce(BufferOf(tail_), ReduceOp::kMax);
  return work;
}

void Reducer::CheckFinite(const Bucket& bucket) {
  if (ops::optim::AllFinite(bucket.gradients.gradients)) return;
  for (const auto& [name, gradient] : bucket.gradients.parts) {
    if (!ops::optim::AllFinite(gradient)) findings_.not_finite.push_back(name);
  }
}

void Reducer::CheckSparse(const Parameter& parameter) {
  if (Grad(parameter.tensor).defined()) {
    findings_.errors.push_back(fmt::format(
        "the gradient of '{}' is dense, where a sparse one was expected: does something beside the "
        "embedding use it?",
        parameter.name));
  }
  if (!options_.check_finite) return;
  const ops::SparseGradient gradient = SparseGrad(parameter.tensor);
  if (gradient.defined() && !ops::optim::AllFinite(gradient.rows)) {
    findings_.not_finite.push_back(parameter.name);
  }
}

void Reducer::FindChanges() {
  for (const Parameter& parameter : parameters_) {
    if (parameter.sparse) CheckSparse(parameter);
    const bool requires_grad = RequiresGrad(parameter.tensor);
    const bool thawed_and_frozen = !requires_grad && parameter.is_local && HasGradient(parameter);
    if (!parameter.trained && (requires_grad || thawed_and_frozen)) {
      findings_.thawed.push_back(parameter.name);
    }
    if (!requires_grad && (parameter.trained || thawed_and_frozen)) {
      findings_.frozen.push_back(parameter.name);
    }
    const bool may_lack = MayLackGradients() && parameter.trained;
    if (requires_grad && !may_lack && !HasGradient(parameter)) {
      findings_.unreached.push_back(parameter.name);
    }
    if (!options_.static_graph && parameter.completed > 1) {
      findings_.errors.push_back(fmt::format(
          "the gradient of '{}' was completed {} times in one Backward; static_graph allows that",
          parameter.name, parameter.completed));
    }
    if (parameter.expected && parameter.completed != *parameter.expected) {
      findings_.errors.push_back(fmt::format(
          "the graph isn't static: Backward reached '{}' {} times, in the first one {} times",
          parameter.name, parameter.completed, *parameter.expected));
    }
  }
  for (std::string& name : Replaced()) {
    std::erase(findings_.unreached, name);
    findings_.replaced.push_back(std::move(name));
  }
}

std::vector<std::string> Reducer::Replaced() const {
  std::vector<std::string> replaced;
  for (const auto& [index, handle] : handles_) {
    const Parameter& parameter = parameters_[index];
    if (!handle->IsSameAs(parameter.tensor)) replaced.push_back(parameter.name);
  }
  return replaced;
}

void Reducer::FillTail() {
  if (!follows_) FindChanges();
  // So that it is 1 for the ranks, and at least the smallest number in any case.
  const double mark = tail_rides() ? 1 / scale_.value_or(1) : 1;
  const double flag = findings_.empty() ? 0 : mark;
  if (!MayLackGradients()) {
    if (flag != 0) tail_.Fill(flag);
    return;
  }
  std::vector<double> tail(NumInTail());
  tail[kTroubleFlag] = flag;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (HasGradient(parameters_[i])) tail[1 + i] = mark;
  }
  tail_.CopyFrom(Tensor::FromVector(tail, {NumInTail()}));
}

void Reducer::ReduceSparse() {
  std::vector<ops::NamedTensor> trained;
  std::vector<Tensor> tensors;
  for (const Parameter& parameter : parameters_) {
    if (!parameter.trained || !parameter.sparse) continue;
    trained.push_back({parameter.name, parameter.tensor});
    tensors.push_back(parameter.tensor);
  }
  if (trained.empty()) return;
  ReduceSparseGradients(group_, tensors, scale_.value_or(1.0 / group_.size()), !follows_);
  if (options_.on_reduced) options_.on_reduced(trained);
}

void Reducer::Finish() {
  for (const Parameter& parameter : parameters_) {
    if (parameter.trained && parameter.completed == 0 && !follows_) FillIn(parameter);
  }
  for (size_t bucket = queue_->num_sent(); bucket < buckets_.size(); ++bucket) NoteReady(bucket);
  queue_->Flush();
  const Clock::time_point walked = Clock::now();
  Clock::time_point now = walked;
  queue_->Wait([&](int index) {
    if (options_.observer != nullptr) {
      BucketReport& report = reports_[index];
      report.reduced = Clock::now();
      report.waited = report.reduced - std::exchange(now, report.reduced);
    }
    if (options_.on_reduced) options_.on_reduced(buckets_[index].trained);
  });
  if (tail_work_) std::exchange(tail_work_, nullptr)->Wait();
  ReduceSparse();
  const Clock::time_point finished = Clock::now();
  exposed_seconds_ += std::chrono::duration<double>(finished - walked).count();
  if (options_.observer != nullptr) Report(walked, finished);
}

// What the ranks have found is the same to all of them, and so is what they do now.
void Reducer::Settle() {
  const absl::Cleanup end = [this] { Reset(); };
  const std::vector<double> tail =
      MayLackGradients() ? tail_.ToVector<double>() : std::vector<double>{tail_.Item()};
  if (tail[kTroubleFlag] != 0) {
    tail_.FillZero();
    std::vector<Findings> ranks;
    for (const std::string& blob : group_.ExchangeBlobs(findings_.Encode())) {
      ranks.push_back(Findings::Decode(blob));
    }
    const Verdict verdict = Judge(ranks, MayLackGradients());
    if (!verdict.trouble.empty()) {
      const std::string message =
          fmt::format("Backward could not average all gradients: {}", verdict.trouble);
      if (verdict.only_not_finite) throw NonFiniteGradientError(message);
      throw std::logic_error(message);
    }
    ApplyTail(tail);
    Adopt(verdict, ranks);
  } else {
    ApplyTail(tail);
    if (!order_is_known_) LearnOrder();
  }
  if (options_.synchronize_buffers) options_.synchronize_buffers(first_active_);
}

// Gives a gradient to what another rank has used, and none to what no rank has.
void Reducer::ApplyTail(const std::vector<double>& tail) {
  if (!MayLackGradients() && !follows_) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& parameter = parameters_[i];
    if (!parameter.trained || parameter.sparse) continue;
    if (MayLackGradients() && tail[1 + i] == 0) {
      ClearGrad(parameter.tensor);
    } else if (!HasGradient(parameter)) {
      ClearGrad(parameter.tensor);
      PlaceGrad(parameter.tensor, parameter.place);
      SetGrad(parameter.tensor, parameter.place);
    }
  }
}

// From now on buckets are filled in the order in which gradients have come on rank 0.
void Reducer::LearnOrder() {
  order_is_known_ = true;
  if (options_.static_graph) {
    for (Parameter& parameter : parameters_) {
      if (parameter.trained && !follows_) parameter.expected = parameter.completed;
    }
  }
  std::vector<int32_t> order;
  const auto append = [&](size_t index) {
    std::erase(order, static_cast<int32_t>(index));  // what came again came last
    order.push_back(static_cast<int32_t>(index));
  };
  for (size_t index : arrivals_) append(index);
  for (size_t index : order_) {
    if (std::ranges::find(arrivals_, index) == arrivals_.end()) append(index);
  }
  group_
      .Broadcast({order.data(), static_cast<int64_t>(order.size()), ops::DType::kInt32},
                 /*root=*/0)
      ->Wait();
  std::vector<size_t> learnt(order.begin(), order.end());
  if (learnt != order_ || options_.static_graph) MakeBuckets(std::move(learnt));
}

// All ranks have frozen and thawed these, some perhaps first the one and then the other. What was
// thawed is in no bucket yet.
void Reducer::Adopt(const Verdict& verdict, std::span<const Findings> ranks) {
  const auto contains = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (Parameter& parameter : parameters_) {
    const bool is_used = std::ranges::any_of(ranks, [&](const Findings& rank) {
      return !rank.follows && !contains(rank.unreached, parameter.name);
    });
    if (contains(verdict.thawed, parameter.name)) {
      parameter.trained = true;
      if (is_used) AverageAlone(parameter);
    }
    if (contains(verdict.frozen, parameter.name)) {
      parameter.trained = false;
      if (!parameter.sparse) PlaceGrad(parameter.tensor, {});
      parameter.place = Tensor();
    }
  }
  order_is_known_ = false;
  for (Parameter& parameter : parameters_) parameter.expected.reset();
  MakeBuckets(UsualOrder());
}

void Reducer::AverageAlone(const Parameter& parameter) {
  const Tensor& tensor = parameter.tensor;
  if (parameter.sparse) {
    ReduceSparseGradients(group_, {&tensor, 1}, scale_.value_or(1.0 / group_.size()), !follows_);
    return;
  }
  const Tensor gradient =
      HasGradient(parameter) ? Grad(tensor) : Tensor::Zeros(tensor.shape(), tensor.options());
  group_.AllReduce(BufferOf(gradient), AverageOfRanks())->Wait();
  SetGrad(tensor, gradient);
}

void Reducer::NoteReady(size_t bucket) {
  if (options_.observer != nullptr) reports_[bucket].ready = Clock::now();
}

void Reducer::Report(Clock::time_point walked, Clock::time_point finished) {
  std::vector<std::string> unused;
  for (const Parameter& parameter : parameters_) {
    if (parameter.trained && !HasGradient(parameter)) unused.push_back(parameter.name);
  }
  for (BucketReport& report : reports_) {
    report.index = static_cast<int>(&report - reports_.data());
    report.num_bytes = buckets_[report.index].gradients.gradients.num_bytes();
  }
  options_.observer->OnBackward({.started = begun_,
                                 .walked = walked,
                                 .finished = finished,
                                 .exposed = finished - walked,
                                 .buckets = reports_,
                                 .unused = unused});
}

void Reducer::Abandon() noexcept {
  try {
    // What it was can't be seen from here: a destructor on the way out.
    group_.Abort("an exception ended Backward before the gradients were averaged");
  } catch (...) {
    // The group has failed by itself; nobody waits for it.
  }
  queue_->End();
  if (tail_work_) {
    try {
      tail_work_->Wait();
    } catch (...) {
      // As above.
    }
  }
  Reset();
}

void Reducer::Reset() {
  in_pass_ = follows_ = false;
  findings_ = {};
  arrivals_.clear();
  tail_work_ = nullptr;
  for (Parameter& parameter : parameters_) {
    parameter.completed = 0;
    parameter.is_local = false;
  }
}

std::string Reducer::DescribeBuckets() const {
  std::string text;
  for (const Bucket& bucket : buckets_) {
    std::vector<std::string_view> names;
    for (const ops::NamedTensor& part : bucket.gradients.parts) names.push_back(part.name);
    const Tensor& gradients = bucket.gradients.gradients;
    text += fmt::format("bucket {}: {} bytes of {}: {}\n", bucket.gradients.index,
                        gradients.num_bytes(), Name(gradients.dtype()), fmt::join(names, ", "));
  }
  for (const Parameter& parameter : parameters_) {
    if (parameter.trained && parameter.sparse) text += fmt::format("sparse: {}\n", parameter.name);
  }
  return text;
}

}  // namespace ddp
