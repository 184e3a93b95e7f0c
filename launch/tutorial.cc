// Two processes train one model together: PyTorch's first DistributedDataParallel program, in C++.
//
//   bazel run //launch:tutorial
#include <fmt/format.h>

#include <memory>

#include "ddp/collectives/process_group.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "launch/spawn.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/optim/sgd.h"
#include "ops/tensor/random.h"

namespace nn = ops::nn;
namespace optim = ops::optim;
using ops::Tensor;

class SimpleModel : public nn::Module {
 public:
  SimpleModel() { Register("linear", linear_); }
  Tensor Forward(const Tensor& x) override { return linear_.Forward(x); }

 private:
  nn::Linear linear_{5, 2};
};

void Train(int rank, int world_size, std::shared_ptr<ddp::Store> store) {
  auto group = ddp::InitProcessGroup(
      {.backend = "gloo", .rank = rank, .world_size = world_size, .store = store});

  SimpleModel model;
  ddp::DistributedDataParallel replicated(model, *group);
  optim::Sgd optimizer(model.Parameters(), {.learning_rate = 0.01});

  ops::Generator generator(/*seed=*/rank);  // every rank has its own data
  Tensor inputs = Tensor::Randn({10, 5}, generator);
  Tensor targets = Tensor::Randn({10, 2}, generator);

  for (int epoch = 0; epoch < 3; ++epoch) {
    optimizer.ZeroGrad();
    Tensor outputs = replicated.Forward(inputs);
    Tensor loss = ops::MseLoss(outputs, targets);
    ops::Backward(loss);  // gradients are now the mean over the ranks
    optimizer.Step();
    fmt::print("Rank {}, Epoch {}, Loss: {:.4f}\n", rank, epoch, loss.Item());
  }
}  // the group ends with its scope

int main() { return launch::Spawn(Train, {.num_ranks = 2}); }
