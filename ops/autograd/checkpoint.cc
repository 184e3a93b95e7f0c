#include "ops/autograd/checkpoint.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/autograd/checks.h"
#include "ops/autograd/grad.h"
#include "ops/autograd/node.h"
#include "ops/autograd/recomputation.h"

namespace ops {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

// What Checkpoint keeps.
struct Forgotten {
  Function function;
  Tensor x;                          // without its tape
  std::weak_ptr<TensorMeta> x_tape;  // the node's inputs own it, as far as it is used
  std::vector<uint64_t> drawn;

  // Gradients go straight to where they would have gone without a checkpoint: the second run hangs
  // on the tensors that the first one used. These are inputs of the node whose way back this is, so
  // that the walk around this one waits for their parts, and this one ends there.
  void RunAgainAndGoBack(const Tensor& dy) {
    const Tensor x_on_tape = x.Detach();
    x_on_tape.set_meta(x_tape.lock());
    Tensor y;
    {
      const ScopedTapeMode tape(TapeMode::kOn);
      const ScopedRun run(ScopedRun::Time::kSecond, drawn);
      y = function(x_on_tape);
    }
    if (RequiresGrad(y)) Backward(y, dy);
  }
};

}  // namespace

Tensor Checkpoint(const Function& function, const Tensor& x) {
  RequireDefined("Checkpoint", {x});
  std::vector<uint64_t> drawn;
  std::vector<Tensor> used;
  Tensor y;
  {
    const ScopedInputNotes notes(used);
    const ScopedRun run(ScopedRun::Time::kFirst, drawn);
    y = function(x);
  }
  RequireDefined("Checkpoint", {y});
  const std::vector<InputList::Input> inputs(used.begin(), used.end());
  if (!NeedsTape(InputList(inputs)) || RequiresGrad(y)) return y;
  return Record("Checkpoint", y.Detach(), InputList(inputs),
                [kept = Forgotten{function, Saved(x), x.shared_meta(), std::move(drawn)}](
                    const Tensor& dy, Node&) mutable { kept.RunAgainAndGoBack(dy); });
}

}  // namespace ops
