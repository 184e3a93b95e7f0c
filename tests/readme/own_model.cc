// A dataset and a model of one's own, trained on two ranks: a network learns the sine.
#include <fmt/format.h>

#include <cmath>

#include "ddp/collectives/process_group.h"
#include "ddp/data/data_loader.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "launch/spawn.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/nn/losses.h"
#include "ops/optim/adam.h"

namespace nn = ops::nn;
namespace optim = ops::optim;
using ops::Tensor;

class Sine : public ddp::Dataset {
 public:
  int64_t size() const override { return 2000; }
  ddp::Example Get(int64_t i) const override {
    const float x = -3 + 0.003f * i;
    return {Tensor::FromVector<float>({x}, {1}), Tensor::FromVector<float>({std::sin(x)}, {1})};
  }
};

class ResidualNet : public nn::Module {
 public:
  ResidualNet() {
    Register("in", in_);
    Register("middle", middle_);
    Register("out", out_);
  }
  Tensor Forward(const Tensor& x) override {
    Tensor h = ops::Relu(in_.Forward(x));
    return out_.Forward(h + ops::Relu(middle_.Forward(h)));
  }

 private:
  nn::Linear in_{1, 64}, middle_{64, 64}, out_{64, 1};
};

void Train(int rank, int world_size, std::shared_ptr<ddp::Store> store) {
  auto group = ddp::InitProcessGroup({.rank = rank, .world_size = world_size, .store = store});
  Sine data;
  ddp::DistributedSampler sampler(data.size(), {.rank = rank, .world_size = world_size});
  ddp::DataLoader loader(data, sampler, {.batch_size = 50});

  ResidualNet net;
  ddp::DistributedDataParallel replicated(net, *group);
  optim::Adam optimizer(net.Parameters(), {.learning_rate = 0.01});

  for (int epoch = 0; epoch < 10; ++epoch) {
    double sum = 0;
    for (const ddp::Batch& batch : loader) {
      optimizer.ZeroGrad();
      Tensor loss = nn::MseLoss(replicated.Forward(batch.inputs), batch.targets);
      ops::Backward(loss);
      optimizer.Step();
      sum += loss.Item();
    }
    if (rank == 0) fmt::print("Epoch {}, Loss: {:.5f}\n", epoch, sum / loader.num_batches());
  }
}

int main() { return launch::Spawn(Train, {.num_ranks = 2}); }
