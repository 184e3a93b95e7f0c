#include "ddp/replicated/distributed_data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "ddp/duration.h"
#include "ddp/replicated/model_agreement.h"
#include "ddp/replicated/reducer.h"
#include "ddp/replicated/work_list.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

using Options = DistributedDataParallelOptions;

// What must be the same on all ranks.
std::string Describe(const Options& options) {
  return fmt::format(
      "bucket_bytes {}, first_bucket_bytes {}, buffers {}, find_unused_parameters {}, static_graph "
      "{}, average {}, check_finite {}, {} hook",
      options.bucket_bytes, options.first_bucket_bytes, static_cast<int>(options.buffers),
      options.find_unused_parameters, options.static_graph, static_cast<int>(options.average),
      options.check_finite, options.hook ? "a" : "no");
}

void Validate(const Options& options, const std::vector<ops::NamedTensor>& parameters) {
  if (std::ranges::none_of(parameters, [](const auto& p) { return RequiresGrad(p.tensor); })) {
    throw std::invalid_argument(
        "DistributedDataParallel: the model has no parameter that requires a gradient");
  }
  if (options.on_reduced && (options.find_unused_parameters || options.static_graph)) {
    throw std::invalid_argument(
        "DistributedDataParallel: on_reduced goes with neither find_unused_parameters nor "
        "static_graph: which gradients there are isn't known before the last bucket");
  }
}

// In a world of one.
bool HasWork(const Options& options) {
  return options.average == Options::Average::kWeights || options.check_finite || options.hook ||
         options.on_reduced || options.observer != nullptr;
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(ops::nn::Module& model, ProcessGroup& group,
                                                 const Options& options)
    : model_(model), group_(group), options_(options) {
  Register("module", model);
  if (group.size() == 1 && !HasWork(options)) return;

  RequireSameModel(group, model, Describe(options));
  const std::vector<ops::NamedTensor> parameters = model.Parameters();
  Validate(options, parameters);
  BroadcastFrom(group, /*root=*/0, model.StateDict());
  reducer_ = std::make_unique<Reducer>(
      parameters, model.ParameterHandles(), group,
      ReducerOptions{
          .limits = {.bytes = options.bucket_bytes, .first_bytes = options.first_bucket_bytes},
          .find_unused_parameters = options.find_unused_parameters,
          .static_graph = options.static_graph,
          .by_weight = options.average == Options::Average::kWeights,
          .check_finite = options.check_finite,
          .hook = options.hook,
          .on_reduced = options.on_reduced,
          .synchronize_buffers = BufferSynchronization(),
          .observer = options.observer});
}

DistributedDataParallel::~DistributedDataParallel() = default;

ops::Tensor DistributedDataParallel::Forward(const ops::Tensor& x) {
  if (reducer_ == nullptr) return model_.Forward(x);
  RequireSameTensors();
  if (options_.observer == nullptr) return model_.Forward(x);
  const Clock::time_point start = Clock::now();
  ops::Tensor y = model_.Forward(x);
  options_.observer->OnForward(Clock::now() - start);
  return y;
}

// Where all were replaced, no gradient would tell Backward.
void DistributedDataParallel::RequireSameTensors() {
  const std::vector<std::string> replaced = reducer_->Replaced();
  if (replaced.empty()) return;
  const std::string message = fmt::format(
      "parameter '{}' was given another tensor after the model was wrapped; wrap it again",
      replaced.front());
  group_.Abort(message);
  throw std::logic_error(message);
}

std::function<void(int)> DistributedDataParallel::BufferSynchronization() {
  if (options_.buffers == Options::Buffers::kLocal || model_.Buffers().empty()) return nullptr;
  return [this](int root) {
    if (model_.training()) SynchronizeBuffers(root);
  };
}

void DistributedDataParallel::SynchronizeBuffers(int root) {
  const std::vector<ops::NamedTensor> buffers = model_.Buffers();
  if (options_.buffers == Options::Buffers::kBroadcast) return BroadcastFrom(group_, root, buffers);
  WorkList works;
  for (const ops::NamedTensor& buffer : buffers) {
    works.Add(IsFloating(buffer.tensor.dtype())
                  ? group_.AllReduce(BufferOf(buffer.tensor), ReduceOp::kAverage)
                  : group_.Broadcast(BufferOf(buffer.tensor), root));
  }
  works.Wait();
}

void DistributedDataParallel::SetWeight(double weight) {
  if (!std::isfinite(weight) || weight < 0) {
    throw std::invalid_argument(
        fmt::format("SetWeight: {} is no weight: expected a finite number of at least 0", weight));
  }
  if (options_.average != Options::Average::kWeights) {
    throw std::logic_error("SetWeight: the average isn't by weights (Average::kWeights)");
  }
  reducer_->set_weight(weight);
}

double DistributedDataParallel::exposed_communication_seconds() const {
  return reducer_ ? reducer_->exposed_seconds() : 0;
}

std::string DistributedDataParallel::DescribeBuckets() const {
  return reducer_ ? reducer_->DescribeBuckets() : "";
}

void DistributedDataParallel::RaiseFlag() {
  if (reducer_ == nullptr) {
    flag_is_raised_ = true;
  } else {
    reducer_->RaiseFlag();
  }
}

bool DistributedDataParallel::any_flag_is_raised() const {
  return reducer_ == nullptr ? flag_is_raised_.load() : reducer_->any_flag_is_raised();
}

DistributedDataParallel::NoSync::NoSync(DistributedDataParallel& replicated)
    : reducer_(replicated.reducer_.get()) {
  if (reducer_ == nullptr) return;
  previous_ = reducer_->synchronizes();
  reducer_->set_synchronizes(false);
}

DistributedDataParallel::NoSync::~NoSync() {
  if (reducer_ != nullptr) reducer_->set_synchronizes(previous_);
}

}  // namespace ddp
