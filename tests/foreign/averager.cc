// A program with gradients of its own, on two ranks: each fits w * x + b to its own points, and the
// average of the gradients leads both to the line through all of them.
#include <fmt/format.h>

#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/replicated/gradient_averager.h"
#include "launch/spawn.h"

void Fit(int rank, int world_size, std::shared_ptr<ddp::Store> store) {
  auto group = ddp::InitProcessGroup({.rank = rank, .world_size = world_size, .store = store});
  float w = 10 * rank, b = rank, w_grad = 0, b_grad = 0;
  ddp::BroadcastFromRank0(*group, {{"w", {&w, 1}}, {"b", {&b, 1}}});  // all begin alike
  ddp::GradientAverager averager(*group, {{"w", {&w_grad, 1}}, {"b", {&b_grad, 1}}});

  for (int step = 0; step < 500; ++step) {
    w_grad = b_grad = 0;
    for (float x = rank; x < 4; x += 2) {  // rank 0 has x = 0, 2; rank 1 has x = 1, 3
      const float error = w * x + b - (3 * x + 1);
      w_grad += error * x;
      b_grad += error;
    }
    averager.Ready("b");  // leaves at once, or with its bucket; other gradients may follow
    averager.Ready("w");
    averager.Wait();  // both are the average over the ranks
    w -= 0.1f * w_grad;
    b -= 0.1f * b_grad;
  }
  fmt::print("rank {}: w {:.3f} b {:.3f}\n", rank, w, b);
}

int main() { return launch::Spawn(Fit, {.num_ranks = 2}); }
