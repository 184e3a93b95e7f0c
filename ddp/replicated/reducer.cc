#include "ddp/replicated/reducer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "ddp/collectives/reduce.h"
#include "ddp/errors.h"
#include "ddp/replicated/inspection.h"
#include "ddp/replicated/sparse_reduction.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using ops::Tensor;

// What is where in the tail.
constexpr int64_t kTrouble = 0;
constexpr int64_t kFlag = 1;

// Whether any rank has set it; leaves it as 0, as which it travels next time.
bool Take(const Tensor& flag) {
  if (flag.Item() == 0) return false;
  flag.FillZero();
  return true;
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
    : group_(group), options_(std::move(options)), buckets_(group, options_.limits) {
  for (const auto& [name, tensor] : parameters) {
    ReducedParameter& parameter = parameters_.emplace_back();
    parameter.name = name;
    parameter.tensor = tensor;
    parameter.trained = RequiresGrad(tensor);
    parameter.sparse = ExpectsSparseGrad(tensor);
  }
  for (const auto& [name, handle] : handles) {
    const auto parameter = std::ranges::find_if(
        parameters_, [&](const ReducedParameter& p) { return p.tensor.IsSameAs(*handle); });
    if (parameter != parameters_.end()) {
      handles_.emplace_back(parameter - parameters_.begin(), handle);
    }
  }
  FillBuckets(UsualOrder(parameters_));
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].hook =
        AddGradHook(parameters_[i].tensor, [this, i](const Tensor&) { OnGradient(i); });
  }
}

Reducer::~Reducer() {
  for (const ReducedParameter& parameter : parameters_)
    RemoveGradHook(parameter.tensor, parameter.hook);
}

void Reducer::FillBuckets(std::vector<size_t> order) {
  buckets_.Fill(parameters_, std::move(order), tail_plan());
  std::vector<int> num_expected;
  for (const GradientBuckets::Bucket& bucket : buckets_) {
    num_expected.push_back(static_cast<int>(std::ranges::count_if(
        bucket.parameters, [&](size_t i) { return parameters_[i].expected.value_or(1) > 0; })));
  }
  const Tensor& tail = buckets_.tail();
  trouble_ = tail.Slice(kTrouble, kTrouble + 1);
  flag_ = tail.Slice(kFlag, kFlag + 1);
  // The last bucket waits for the end of the walk: whatever goes wrong on the way, no rank is done.
  ++num_expected.back();
  queue_.emplace(std::move(num_expected), [this](int bucket) { return SendBucket(bucket); });
}

void Reducer::OnGradient(size_t index) {
  if (!synchronizes_) {
    parameters_[index].is_local = !parameters_[index].trained;
    return;
  }
  if (!in_pass_) Begin();
  ReducedParameter& parameter = parameters_[index];
  ++parameter.completed;
  if (!parameter.trained) return;  // it has been thawed; InspectParameters tells
  if (parameter.sparse) return;    // it travels behind the buckets
  if (!order_is_known_) arrivals_.push_back(index);
  parameter.KeepInPlace();
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
  for (const ReducedParameter& parameter : parameters_) {
    if (parameter.trained && parameter.expected == 0) FillIn(parameter);
  }
}

void Reducer::Follow(const Attendance::Roll& roll) {
  in_pass_ = follows_ = findings_.follows = true;
  if (options_.observer != nullptr) begun_ = Clock::now();
  BeginAs(roll);
  for (const GradientBuckets::Bucket& bucket : buckets_) bucket.memory.FillZero();
  Finish();
  Settle();
}

bool Reducer::HasGradient(const ReducedParameter& parameter) const {
  return !follows_ && parameter.HasGradient();
}

// What this Backward didn't reach: a gradient from an earlier one, which counts, or zeros.
void Reducer::FillIn(const ReducedParameter& parameter) {
  if (HasGradient(parameter)) {
    parameter.KeepInPlace();
  } else if (!parameter.sparse) {
    parameter.place.FillZero();
  }
}

Reduction Reducer::AverageOfRanks() const {
  return scale_ ? PremultipliedSum(*scale_) : Reduction(ReduceOp::kAverage);
}

std::shared_ptr<Work> Reducer::SendBucket(int index) {
  const GradientBuckets::Bucket& bucket = buckets_[index];
  const bool last = index + 1 == queue_->size();
  if (options_.check_finite && !follows_) InspectBucket(bucket, findings_);
  if (last) FillTail();
  if (options_.observer != nullptr) reports_[index].started = Clock::now();
  if (!options_.hook) return group_.AllReduce(BufferOf(bucket.memory), AverageOfRanks());
  const Tensor& gradients = bucket.gradients.gradients;
  Multiply(gradients.dtype(), *scale_, gradients.raw_data(), gradients.raw_data(),
           gradients.num_elements());
  GradientBucket handed = bucket.gradients;
  handed.scale = *scale_;
  std::shared_ptr<Work> work = options_.hook(group_, handed);
  if (last) tail_work_ = group_.AllReduce(BufferOf(buckets_.tail()), ReduceOp::kMax);
  return work;
}

std::vector<std::string> Reducer::Replaced() const {
  std::vector<std::string> replaced;
  for (const auto& [index, handle] : handles_) {
    const ReducedParameter& parameter = parameters_[index];
    if (!handle->IsSameAs(parameter.tensor)) replaced.push_back(parameter.name);
  }
  return replaced;
}

void Reducer::FillTail() {
  if (!follows_) {
    InspectParameters(parameters_, Replaced(),
                      {.may_lack_gradients = MayLackGradients(),
                       .static_graph = options_.static_graph,
                       .check_finite = options_.check_finite},
                      findings_);
  }
  // So that it is 1 for the ranks, and at least the smallest number in any case.
  const double mark = tail_plan().rides ? 1 / scale_.value_or(1) : 1;
  if (!findings_.empty()) trouble_.Fill(mark);
  if (flag_is_raised_) flag_.Fill(mark);
  if (!MayLackGradients()) return;
  std::vector<double> used(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (HasGradient(parameters_[i])) used[i] = mark;
  }
  MarksOfUse().CopyFrom(Tensor::FromVector(used, {std::ssize(used)}));
}

// Of each parameter, where it matters who is used.
Tensor Reducer::MarksOfUse() { return buckets_.tail().Slice(kFlag + 1, tail_plan().num_elements); }

void Reducer::ReduceSparse() {
  std::vector<ops::NamedTensor> trained;
  std::vector<Tensor> tensors;
  for (const ReducedParameter& parameter : parameters_) {
    if (!parameter.trained || !parameter.sparse) continue;
    trained.push_back({parameter.name, parameter.tensor});
    tensors.push_back(parameter.tensor);
  }
  if (trained.empty()) return;
  ReduceSparseGradients(group_, tensors, scale_.value_or(1.0 / group_.size()), !follows_);
  if (options_.on_reduced) options_.on_reduced(trained);
}

void Reducer::Finish() {
  for (const ReducedParameter& parameter : parameters_) {
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
  any_flag_is_raised_ = Take(flag_);
  const std::vector<double> used =
      MayLackGradients() ? MarksOfUse().ToVector<double>() : std::vector<double>();
  if (Take(trouble_)) {
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
    ApplyMarks(used);
    Adopt(verdict, ranks);
  } else {
    ApplyMarks(used);
    if (!order_is_known_) LearnOrder();
  }
  if (options_.synchronize_buffers) options_.synchronize_buffers(first_active_);
}

// Gives a gradient to what another rank has used, and none to what no rank has.
void Reducer::ApplyMarks(const std::vector<double>& used) {
  if (!MayLackGradients() && !follows_) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const ReducedParameter& parameter = parameters_[i];
    if (!parameter.trained || parameter.sparse) continue;
    if (MayLackGradients() && used[i] == 0) {
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
    for (ReducedParameter& parameter : parameters_) {
      if (parameter.trained && !follows_) parameter.expected = parameter.completed;
    }
  }
  std::vector<int32_t> order;
  const auto append = [&](size_t index) {
    std::erase(order, static_cast<int32_t>(index));  // what came again came last
    order.push_back(static_cast<int32_t>(index));
  };
  for (size_t index : arrivals_) append(index);
  for (size_t index : buckets_.order()) {
    if (std::ranges::find(arrivals_, index) == arrivals_.end()) append(index);
  }
  group_
      .Broadcast({order.data(), static_cast<int64_t>(order.size()), ops::DType::kInt32},
                 /*root=*/0)
      ->Wait();
  std::vector<size_t> learnt(order.begin(), order.end());
  if (learnt != buckets_.order() || options_.static_graph) FillBuckets(std::move(learnt));
}

// All ranks have frozen and thawed these, some perhaps first the one and then the other. What was
// thawed is in no bucket yet.
void Reducer::Adopt(const Verdict& verdict, std::span<const Findings> ranks) {
  const auto contains = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  for (ReducedParameter& parameter : parameters_) {
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
  for (ReducedParameter& parameter : parameters_) parameter.expected.reset();
  FillBuckets(UsualOrder(parameters_));
}

void Reducer::AverageAlone(const ReducedParameter& parameter) {
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
  for (const ReducedParameter& parameter : parameters_) {
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
  for (ReducedParameter& parameter : parameters_) {
    parameter.completed = 0;
    parameter.is_local = false;
  }
}

std::string Reducer::DescribeBuckets() const {
  std::string text = buckets_.Describe();
  for (const ReducedParameter& parameter : parameters_) {
    if (parameter.trained && parameter.sparse) text += fmt::format("sparse: {}\n", parameter.name);
  }
  return text;
}

}  // namespace ddp
