#include "ddp/replicated/distributed_data_parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "ddp/replicated/model_agreement.h"
#include "ddp/replicated/reducer.h"
#include "ops/autograd/grad.h"

namespace ddp {
namespace {

std::string Describe(const DistributedDataParallelOptions& options) {
  return fmt::format("bucket_bytes {}, first_bucket_bytes {}, broadcast_buffers {}",
                     options.bucket_bytes, options.first_bucket_bytes, options.broadcast_buffers);
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(ops::nn::Module& model, ProcessGroup& group,
                                                 const DistributedDataParallelOptions& options)
    : model_(model), group_(group) {
  Register("module", model);
  if (group.size() == 1) return;

  RequireSameModel(group, model, Describe(options));
  const std::vector<ops::NamedTensor> parameters = model.Parameters();
  if (std::ranges::none_of(parameters, [](const auto& p) { return RequiresGrad(p.tensor); })) {
    throw std::invalid_argument(
        "DistributedDataParallel: the model has no parameter that requires a gradient");
  }
  BroadcastFromRank0(group, model.StateDict());
  broadcasts_buffers_ = options.broadcast_buffers && !model.Buffers().empty();
  reducer_ = std::make_unique<Reducer>(
      parameters, group,
      BucketLimits{.bytes = options.bucket_bytes, .first_bytes = options.first_bucket_bytes});
}

DistributedDataParallel::~DistributedDataParallel() = default;

ops::Tensor DistributedDataParallel::Forward(const ops::Tensor& x) {
  if (broadcasts_buffers_ && model_.training() && reducer_->synchronizes()) {
    BroadcastFromRank0(group_, model_.Buffers());
  }
  return model_.Forward(x);
}

double DistributedDataParallel::exposed_communication_seconds() const {
  return reducer_ ? reducer_->exposed_seconds() : 0;
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
