// A residual network with a block of one's own learns to read drawn digits, on two ranks.
#include <fmt/format.h>

#include "ddp/data/data_loader.h"
#include "ddp/data/digits.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "launch/spawn.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/optim/sgd.h"

namespace nn = ops::nn;
using ops::Tensor;

class Block : public nn::Module {  // [batch, in, h, w] -> [batch, out, h / 2, w / 2]
 public:
  Block(int64_t in, int64_t out) {
    body_.Add<nn::Conv2d>(in, out, 3, nn::Conv2dOptions{.stride = 2, .padding = 1, .bias = false});
    body_.Add<nn::BatchNorm2d>(out);
    body_.Add<nn::Relu>();
    body_.Add<nn::Conv2d>(out, out, 3, nn::Conv2dOptions{.padding = 1, .bias = false});
    body_.Add<nn::BatchNorm2d>(out);
    skip_.Add<nn::Conv2d>(in, out, 1, nn::Conv2dOptions{.stride = 2, .bias = false});
    Register("body", body_);
    Register("skip", skip_);
  }
  Tensor Forward(const Tensor& x) override {
    return ops::Relu(body_.Forward(x) + skip_.Forward(x));
  }

 private:
  nn::Sequential body_, skip_;
};

void Train(int rank, int world_size, std::shared_ptr<ddp::Store> store) {
  auto group = ddp::InitProcessGroup({.rank = rank, .world_size = world_size, .store = store});
  ddp::DrawnDigits digits({.size = 8000});
  ddp::DistributedSampler sampler(digits.size(), {.rank = rank, .world_size = world_size});
  ddp::DataLoader loader(digits, sampler, {.batch_size = 32});

  nn::Sequential net;
  net.Add<Block>(1, 16);
  net.Add<Block>(16, 32);
  net.Add<nn::AdaptiveAvgPool2d>(1);
  net.Add<nn::Flatten>();
  net.Add<nn::Linear>(32, 10);
  ddp::DistributedDataParallel replicated(net, *group);
  ops::optim::Sgd optimizer(net.Parameters(), {.learning_rate = 0.05, .momentum = 0.9});

  for (int epoch = 0; epoch < 2; ++epoch) {
    double sum = 0;
    for (const ddp::Batch& batch : loader) {
      optimizer.ZeroGrad();
      Tensor loss = ops::CrossEntropyLoss(replicated.Forward(batch.inputs), batch.targets);
      ops::Backward(loss);
      optimizer.Step();
      sum += loss.Item();
    }
    if (rank == 0) fmt::print("Epoch {}, Loss: {:.4f}\n", epoch, sum / loader.num_batches());
  }
  if (rank != 0) return;
  net.Eval();                // batch norm uses its running statistics; net.Train() goes back
  ops::NoGradGuard no_grad;  // no tape, no gradients
  ddp::DrawnDigits unseen({.size = 500, .split = ddp::DrawnDigits::Split::kTest});
  ddp::DistributedSampler all(unseen.size(), {.shuffle = false});
  ddp::DataLoader test(unseen, all, {.batch_size = 100});
  double sum = 0;
  for (const ddp::Batch& batch : test) {
    sum += ops::CrossEntropyLoss(net.Forward(batch.inputs), batch.targets).Item();
  }
  fmt::print("Unseen digits, Loss: {:.4f}\n", sum / test.num_batches());
}

int main() { return launch::Spawn(Train, {.num_ranks = 2}); }
