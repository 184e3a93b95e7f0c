#include "tests/soak/random_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ddp/errors.h"
#include "ddp/replicated/communication_hooks.h"
#include "ddp/replicated/distributed_data_parallel.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/optim/adam.h"
#include "ops/optim/clip.h"
#include "ops/optim/sgd.h"
#include "ops/tensor/random.h"
#include "tests/soak/random_model.h"

namespace ddp::soak {
namespace {

using ops::Tensor;
using Kind = Instruction::Kind;
using Outcome = Instruction::Outcome;

constexpr Duration kTimeout = std::chrono::seconds(30);
constexpr char kThrown[] = "thrown on purpose";

// Of all ranks together.
struct Batch {
  Tensor inputs, targets;

  Batch Rows(int64_t begin, int64_t end) const {
    return {inputs.Slice(begin, end), targets.Slice(begin, end)};
  }
};

Batch MakeBatch(const Program& program, int number) {
  const ModelPlan& model = program.model;
  const int64_t rows = program.rows * program.setting.num_ranks;
  ops::Generator random(program.seed + program.index, /*stream=*/1000 + number);
  Batch batch;
  if (model.num_embeddings > 0) {
    std::vector<int64_t> ids(rows);
    for (int64_t& id : ids) id = random.Below(model.num_embeddings);
    batch.inputs = Tensor::FromVector(ids, {rows});
  } else {
    batch.inputs = Tensor::Randn({rows, model.width}, random, {.dtype = model.dtype});
  }
  batch.targets = Tensor::Randn({rows, model.num_outputs}, random, {.dtype = model.dtype});
  return batch;
}

struct TensorState {
  std::string name = {};
  std::vector<double> weight;
  std::optional<std::vector<double>> gradient;

  bool operator==(const TensorState&) const = default;
};

// After an instruction.
struct Snapshot {
  int instruction = 0;
  std::vector<TensorState> tensors = {};

  bool operator==(const Snapshot&) const = default;
};

struct Result {
  std::vector<Snapshot> snapshots = {};
  std::string wrong = {};
};

// A model, its optimizer, and the losses that haven't gone back yet.
class Player {
 public:
  Player(const Program& program, uint64_t model_seed)
      : program_(program), model_(program.model, model_seed) {
    for (const auto& [name, tensor] : model_.Parameters()) {
      if (std::ranges::find(program.frozen, name) != program.frozen.end()) {
        SetRequiresGrad(tensor, false);
      }
    }
    if (program.adam) {
      optimizer_ = std::make_unique<ops::optim::AdamW>(
          model_.Parameters(),
          ops::optim::AdamOptions{
              .learning_rate = 0.05, .epsilon = 0.01, .weight_decay = program.weight_decay});
    } else {
      optimizer_ = std::make_unique<ops::optim::Sgd>(
          model_.Parameters(),
          ops::optim::SgdOptions{
              .learning_rate = 0.05, .momentum = 0.9, .weight_decay = program.weight_decay});
    }
  }
  virtual ~Player() = default;

  // Plays the program as far as it goes well.
  Result Play() {
    Result result;
    for (size_t i = 0; i < program_.instructions.size() && result.wrong.empty(); ++i) {
      const Instruction& instruction = program_.instructions[i];
      Begin(i);
      result.wrong = Do(instruction);
      if (instruction.outcome == Outcome::kLost) break;
      const bool averaged = instruction.kind == Kind::kBackward && !instruction.no_sync &&
                            instruction.outcome == Outcome::kFine;
      if (averaged || instruction.kind == Kind::kStep || instruction.kind == Kind::kClip) {
        result.snapshots.push_back(TakeSnapshot(i));
      }
    }
    if (!result.wrong.empty()) result.wrong += fmt::format(" (instruction {})", current_);
    return result;
  }

 protected:
  virtual void Begin(size_t instruction) { current_ = instruction; }
  virtual bool IsMine(const Instruction& change) const = 0;
  virtual Tensor Loss(const Instruction& forward, const Batch& batch) = 0;
  // "", or what was wrong.
  virtual std::string GoBack(const Instruction& backward, const Tensor& loss) = 0;

  const Program& program() const { return program_; }
  RandomModel& model() { return model_; }
  const Tensor& Parameter(const std::string& name) {
    const auto named = model_.Parameters();
    named_ = std::ranges::find(named, name, &ops::NamedTensor::name)->tensor;
    return named_;
  }

 private:
  std::string Do(const Instruction& instruction) {
    switch (instruction.kind) {
      case Kind::kForward:
        losses_.push_back(Loss(instruction, MakeBatch(program_, num_batches_++)));
        return "";
      case Kind::kBackward:
        return GoBack(instruction, TakeLosses(instruction.num_losses));
      case Kind::kFreeze:
      case Kind::kThaw:
        if (IsMine(instruction)) {
          SetRequiresGrad(Parameter(instruction.parameter), instruction.kind == Kind::kThaw);
        }
        return "";
      case Kind::kClip:
        ops::optim::ClipGradNorm(model_.Parameters(), instruction.max_norm);
        return "";
      case Kind::kZeroGrad:
        optimizer_->ZeroGrad();
        return "";
      case Kind::kClearGrad:
        ops::ClearGrad(Parameter(instruction.parameter));
        return "";
      case Kind::kStep:
        optimizer_->Step();
        return "";
    }
    return "";
  }

  Tensor TakeLosses(int count) {
    Tensor sum = losses_.front();
    for (int i = 1; i < count; ++i) sum = sum + losses_[i];
    losses_.erase(losses_.begin(), losses_.begin() + count);
    return sum;
  }

  Snapshot TakeSnapshot(size_t instruction) {
    Snapshot snapshot{.instruction = static_cast<int>(instruction)};
    for (const auto& [name, tensor] : model_.Parameters()) {
      TensorState& state = snapshot.tensors.emplace_back();
      state.name = name;
      state.weight = tensor.ToVector<double>();
      if (Grad(tensor).defined()) state.gradient = Grad(tensor).ToVector<double>();
    }
    return snapshot;
  }

  const Program& program_;
  RandomModel model_;
  std::unique_ptr<ops::optim::Optimizer> optimizer_;
  std::deque<Tensor> losses_;
  int num_batches_ = 0;
  size_t current_ = 0;
  Tensor named_;
};

// One of several, on its rows.
class RankPlayer : public Player {
 public:
  RankPlayer(const Program& program, TestRank& rank, ProcessGroup& group)
      : Player(program, /*model_seed=*/rank.rank()),
        rank_(rank),
        replicated_(model(), group,
                    {.bucket_bytes = program.bucket_bytes,
                     .first_bucket_bytes = program.first_bucket_bytes,
                     .find_unused_parameters = program.find_unused_parameters,
                     .static_graph = program.static_graph,
                     .check_finite = program.check_finite,
                     .hook = program.hook ? AllReduceGradients : CommunicationHook()}) {}

 protected:
  void Begin(size_t instruction) override {
    Player::Begin(instruction);
    // The watchdog prints it, rank by rank; once is enough.
    const std::string text = rank_.rank() == 0 ? ToText(program()) : "";
    rank_.Note(
        fmt::format("{}at {}: {}", text, instruction, ToText(program().instructions[instruction])));
  }

  bool IsMine(const Instruction& change) const override {
    return change.only_rank < 0 || change.only_rank == rank_.rank();
  }

  Tensor Loss(const Instruction& forward, const Batch& batch) override {
    std::optional<DistributedDataParallel::NoSync> no_sync;
    if (forward.no_sync) no_sync.emplace(replicated_);
    model().set_skipped(forward.skipped[rank_.rank()]);
    const int64_t begin = rank_.rank() * program().rows;
    const Batch mine = batch.Rows(begin, begin + program().rows);
    ops::nn::Module& called = forward.inner ? static_cast<ops::nn::Module&>(model()) : replicated_;
    return MseLoss(called.Forward(mine.inputs), mine.targets);
  }

  std::string GoBack(const Instruction& backward, const Tensor& loss) override {
    std::optional<DistributedDataParallel::NoSync> no_sync;
    if (backward.no_sync) no_sync.emplace(replicated_);
    if (backward.throwing_rank == rank_.rank()) {
      AddGradHook(Parameter(backward.parameter),
                  [](const Tensor&) { throw std::runtime_error(kThrown); });
    }
    const bool is_nan = backward.nan_rank == rank_.rank();
    try {
      ops::Backward(is_nan ? loss * std::numeric_limits<double>::quiet_NaN() : loss);
    } catch (const std::logic_error& error) {
      return Compare(backward, Outcome::kLogicError, error.what());
    } catch (const NonFiniteGradientError& error) {
      return Compare(backward, Outcome::kNonFinite, error.what());
    } catch (const std::runtime_error& error) {
      return Compare(backward, Outcome::kLost, error.what());
    }
    return backward.outcome == Outcome::kFine ? "" : "Backward did not raise";
  }

 private:
  // What was raised with what should have been.
  std::string Compare(const Instruction& backward, Outcome raised, const std::string& message) {
    std::vector<std::string> named;
    for (const std::string& name : backward.names) named.push_back(fmt::format("'{}'", name));
    if (raised == Outcome::kLost) {
      named.push_back(backward.throwing_rank == rank_.rank()
                          ? kThrown
                          : fmt::format("lost rank {}", backward.throwing_rank));
    }
    const bool is_named = std::ranges::any_of(
        named, [&](const auto& name) { return message.find(name) != message.npos; });
    return raised == backward.outcome && is_named ? "" : "Backward raised: " + message;
  }

  TestRank& rank_;
  DistributedDataParallel replicated_;
};

// One process, on all rows.
class LonePlayer : public Player {
 public:
  explicit LonePlayer(const Program& program) : Player(program, /*model_seed=*/0) {}

 protected:
  bool IsMine(const Instruction& change) const override { return change.only_rank < 0; }

  Tensor Loss(const Instruction& forward, const Batch& batch) override {
    const std::vector<Skipped>& skipped = forward.skipped;
    if (std::ranges::count(skipped, skipped[0]) == std::ssize(skipped)) {
      return LossOf(skipped[0], batch);
    }
    Tensor sum;
    for (size_t r = 0; r < skipped.size(); ++r) {
      const int64_t begin = r * program().rows;
      const Tensor loss = LossOf(skipped[r], batch.Rows(begin, begin + program().rows));
      sum = sum.defined() ? sum + loss : loss;
    }
    return sum / skipped.size();
  }

  // Where the ranks must raise, nothing: they begin with cleared gradients then.
  std::string GoBack(const Instruction& backward, const Tensor& loss) override {
    if (backward.outcome == Outcome::kFine) ops::Backward(loss);
    return "";
  }

 private:
  Tensor LossOf(Skipped skipped, const Batch& batch) {
    model().set_skipped(skipped);
    return MseLoss(model().Forward(batch.inputs), batch.targets);
  }
};

bool AreNear(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  return std::ranges::equal(a, b, [&](double x, double y) {
    return std::abs(x - y) <= tolerance * std::max(1.0, std::abs(y));
  });
}

// Of a rank's snapshot: "", or how it differs from one process's.
std::string Difference(const Snapshot& mine, const Snapshot& expected, double tolerance) {
  for (size_t t = 0; t < mine.tensors.size(); ++t) {
    const TensorState& a = mine.tensors[t];
    const TensorState& b = expected.tensors[t];
    if (!AreNear(a.weight, b.weight, tolerance)) {
      return fmt::format("{} is {}, not {}", a.name, a.weight, b.weight);
    }
    if (a.gradient.has_value() != b.gradient.has_value()) {
      return fmt::format("{} has {} gradient", a.name, a.gradient ? "a" : "no");
    }
    if (a.gradient && !AreNear(*a.gradient, *b.gradient, tolerance)) {
      return fmt::format("the gradient of {} is {}, not {}", a.name, *a.gradient, *b.gradient);
    }
  }
  return "";
}

std::string Compare(const Program& program, const std::vector<Result>& ranks, const Result& lone) {
  const double tolerance = program.model.dtype == ops::DType::kFloat64 ? 1e-9 : 5e-4;
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (size_t s = 0; s < lone.snapshots.size(); ++s) {
      const Snapshot& mine = ranks[r].snapshots[s];
      std::string wrong = Difference(mine, lone.snapshots[s], tolerance);
      if (wrong.empty() && mine != ranks[0].snapshots[s]) wrong = "other bits than on rank 0";
      if (!wrong.empty()) {
        return fmt::format("rank {}, after instruction {}: {}\n", r, mine.instruction, wrong);
      }
    }
  }
  return "";
}

}  // namespace

std::string WrongIn(const Program& program) {
  std::vector<Result> ranks(program.setting.num_ranks);
  RunRanks(
      program.setting.num_ranks,
      [&](TestRank& rank) {
        const auto group = rank.Join(program.setting, {.timeout = kTimeout});
        Result& result = ranks[rank.rank()];
        try {
          result = RankPlayer(program, rank, *group).Play();
        } catch (const std::exception& error) {
          result.wrong = error.what();
        }
        if (!result.wrong.empty()) group->Abort(result.wrong);
        rank.Note("ended");
      },
      2 * kTimeout);
  std::string wrong;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (!ranks[r].wrong.empty()) wrong += fmt::format("rank {}: {}\n", r, ranks[r].wrong);
  }
  return wrong.empty() ? Compare(program, ranks, LonePlayer(program).Play()) : wrong;
}

}  // namespace ddp::soak
