#include "ddp/replicated/sync_batch_norm.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ops/nn/normalization.h"

namespace ddp {
namespace {

class RankStatistics : public ops::StatisticsExchange {
 public:
  explicit RankStatistics(std::unique_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  std::vector<double> Gather(std::span<const double> mine) override {
    std::vector<double> all(mine.size() * group_->size());
    // Only read, as the input of an operation is.
    group_->AllGather(BufferOf({const_cast<double*>(mine.data()), mine.size()}), BufferOf(all))
        ->Wait();
    return all;
  }

  void Sum(std::span<double> values) override {
    group_->AllReduce(BufferOf(values), ReduceOp::kSum)->Wait();
  }

 private:
  static Buffer BufferOf(std::span<double> values) {
    return {values.data(), static_cast<int64_t>(values.size()), ops::DType::kFloat64};
  }

  const std::unique_ptr<ProcessGroup> group_;
};

}  // namespace

void SynchronizeBatchNorm(ops::nn::Module& model, ProcessGroup& group) {
  if (group.size() == 1) return;
  const auto exchange = std::make_shared<RankStatistics>(group.Split(0, group.rank()));
  for (const auto& [name, module] : model.Modules()) {
    if (auto* layer = dynamic_cast<ops::nn::BatchNorm*>(module)) layer->ShareStatistics(exchange);
  }
}

}  // namespace ddp
