#include "tests/soak/random_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ops/tensor/random.h"

namespace ddp::soak {
namespace {

using Kind = Instruction::Kind;
using Outcome = Instruction::Outcome;

// Writes instructions while it follows what they do to the gradients of each rank.
class Writer {
 public:
  Writer(Program& program, ops::Generator& random)
      : program_(program),
        random_(random),
        parameters_(ParametersOf(program.model)),
        trained_(parameters_.size(), true),
        thawed_now_(parameters_.size(), false),
        has_gradient_(num_ranks(), std::vector<bool>(parameters_.size(), false)) {
    for (size_t p = 0; p < parameters_.size(); ++p) {
      trained_[p] = std::ranges::find(program.frozen, parameters_[p].name) == program.frozen.end();
    }
    for (int r = 0; r < num_ranks(); ++r) static_skipped_.push_back(SomeBlocks(kAnyBlock));
  }

  void Write() {
    const int num_steps = 3 + Below(12);
    const int mistake_at = Chance(0.4) ? Below(num_steps) : -1;
    for (int step = 0; step < num_steps && !ended_; ++step) {
      if (step == mistake_at) {
        Mistake();
      } else {
        Ordinary();
      }
    }
    if (ended_) return;
    Synchronize();
    Step();
  }

 private:
  static constexpr Skipped kAnyBlock = ~Skipped{0};

  int num_ranks() const { return program_.setting.num_ranks; }
  int Below(int64_t bound) { return static_cast<int>(random_.Below(bound)); }
  bool Chance(double probability) { return random_.Uniform() < probability; }

  Skipped SomeBlocks(Skipped among) {
    Skipped skipped = 0;
    for (size_t b = 0; b < program_.model.blocks.size(); ++b) {
      const bool optional = program_.model.blocks[b].optional && (among >> b & 1) != 0;
      if (optional && Chance(0.5)) skipped |= Skipped{1} << b;
    }
    return skipped;
  }
  bool Uses(size_t parameter, Skipped skipped) const {
    const std::vector<int>& blocks = parameters_[parameter].blocks;
    return blocks.empty() ||
           std::ranges::any_of(blocks, [&](int b) { return (skipped >> b & 1) == 0; });
  }

  Instruction& Add(Instruction instruction) {
    return program_.instructions.emplace_back(std::move(instruction));
  }

  void Forward(std::vector<Skipped> skipped) {
    losses_.push_back(skipped);
    Add({.kind = Kind::kForward,
         .no_sync = Chance(0.2),
         .skipped = std::move(skipped),
         .inner = Chance(0.2)});
  }
  void Forward() {
    if (program_.static_graph) return Forward(static_skipped_);
    const Skipped all = Chance(0.3) ? SomeBlocks(kAnyBlock) : 0;
    std::vector<Skipped> skipped(num_ranks(), all);
    if (program_.find_unused_parameters && Chance(0.5)) {
      for (Skipped& mine : skipped) mine = SomeBlocks(kAnyBlock);
    }
    Forward(std::move(skipped));
  }
  void FullForward() {
    Forward(program_.static_graph ? static_skipped_ : std::vector<Skipped>(num_ranks(), 0));
  }

  // The parameters that have no gradient on some rank once these losses have gone back.
  std::vector<std::string> Missing(size_t num_losses) const {
    std::vector<std::string> missing;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      for (int r = 0; r < num_ranks(); ++r) {
        if (!trained_[p] || has_gradient_[r][p] || IsReached(p, r, num_losses)) continue;
        missing.push_back(parameters_[p].name);
        break;
      }
    }
    return missing;
  }
  bool IsReached(size_t p, int rank, size_t num_losses) const {
    return std::any_of(losses_.begin(), losses_.begin() + num_losses,
                       [&](const auto& skipped) { return Uses(p, skipped[rank]); });
  }
  bool MayLack() const { return program_.find_unused_parameters || program_.static_graph; }

  void Backward(bool no_sync, size_t num_losses) {
    for (size_t p = 0; p < parameters_.size(); ++p) {
      for (int r = 0; r < num_ranks(); ++r) {
        if (trained_[p] && IsReached(p, r, num_losses)) has_gradient_[r][p] = true;
      }
      if (!no_sync) Spread(p);
    }
    losses_.erase(losses_.begin(), losses_.begin() + num_losses);
    is_local_ = no_sync;
    if (!no_sync) thawed_now_.assign(parameters_.size(), false);
    Add({.kind = Kind::kBackward, .no_sync = no_sync, .num_losses = static_cast<int>(num_losses)});
  }
  // What one rank has, all have.
  void Spread(size_t p) {
    const bool any = std::ranges::any_of(has_gradient_, [p](const auto& has) { return has[p]; });
    for (auto& has : has_gradient_) has[p] = any;
  }

  // Afterwards gradients are averages, and no loss is left.
  void Synchronize() {
    if (losses_.empty() && !is_local_) return;
    if (losses_.empty()) FullForward();
    if (!MayLack() && !Missing(losses_.size()).empty()) FullForward();
    Backward(/*no_sync=*/false, losses_.size());
  }

  void Step() {
    Synchronize();
    if (Chance(0.3)) Add({.kind = Kind::kClip, .max_norm = 0.05 + random_.Uniform()});
    Add({.kind = Kind::kStep});
    if (Chance(0.8)) ZeroGrad();
  }

  void ZeroGrad() {
    Add({.kind = Kind::kZeroGrad});
    for (auto& has : has_gradient_) has.assign(parameters_.size(), false);
    is_local_ = false;
  }

  void ClearGrad() {
    const int p = Below(parameters_.size());
    Add({.kind = Kind::kClearGrad, .parameter = parameters_[p].name});
    for (auto& has : has_gradient_) has[p] = false;
  }

  // Of the trained parameters that every loss depends on, the first but for `p`; nothing: -1.
  int AlwaysReachedBut(int p) const {
    for (int other = 0; other < std::ssize(parameters_); ++other) {
      if (other != p && trained_[other] && parameters_[other].blocks.empty()) return other;
    }
    return -1;
  }

  void FreezeOrThaw() {
    const int p = Below(parameters_.size());
    if (program_.static_graph || !losses_.empty() || AlwaysReachedBut(p) < 0) return;
    // Which ranks have a gradient, not all may know then.
    if (program_.find_unused_parameters && thawed_now_[p]) return;
    trained_[p] = !trained_[p];
    thawed_now_[p] = trained_[p];
    Add({.kind = trained_[p] ? Kind::kThaw : Kind::kFreeze, .parameter = parameters_[p].name});
  }

  void Ordinary() {
    switch (Below(8)) {
      case 0:
      case 1:
        return Step();
      case 2:
        Forward();
        return Forward();
      case 3:
        return FreezeOrThaw();
      case 4:
        return ClearGrad();
      case 5:
        if (Chance(0.3)) return ZeroGrad();
        [[fallthrough]];
      default:
        if (losses_.empty() || Chance(0.3)) Forward();
        const bool no_sync = Chance(0.4);
        const size_t num_losses = 1 + Below(losses_.size());
        if (!no_sync && !MayLack() && !Missing(num_losses).empty()) return Synchronize();
        Backward(no_sync, num_losses);
    }
  }

  void Mistake() {
    Synchronize();
    switch (Below(4)) {
      case 0:
        return SkipAlone();
      case 1:
        return FreezeAlone();
      case 2:
        return program_.check_finite ? Nan() : SkipAlone();
      default:
        return Throw();
    }
  }

  // All losses go back, and every rank raises.
  Instruction& FailingBackward(Outcome outcome, std::vector<std::string> names) {
    Instruction& backward = Add({.kind = Kind::kBackward,
                                 .num_losses = static_cast<int>(losses_.size()),
                                 .outcome = outcome,
                                 .names = std::move(names)});
    losses_.clear();
    return backward;
  }

  void SkipAlone() {
    ZeroGrad();
    const int rank = Below(num_ranks());
    // In a static graph the first step is law.
    std::vector<Skipped> skipped(num_ranks(), 0);
    if (program_.static_graph) {
      FullForward();
      Synchronize();
      ZeroGrad();
      skipped = static_skipped_;
    }
    const Skipped usual = skipped[rank];
    skipped[rank] = usual ^ SomeBlocks(kAnyBlock);
    std::vector<std::string> names;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      if (trained_[p] && Uses(p, usual) != Uses(p, skipped[rank])) {
        names.push_back(parameters_[p].name);
      }
    }
    if (names.empty() || program_.find_unused_parameters) return;
    Forward(skipped);
    FailingBackward(Outcome::kLogicError, std::move(names));
    ZeroGrad();
  }

  void FreezeAlone() {
    const int p = Below(parameters_.size()), rank = Below(num_ranks());
    if (AlwaysReachedBut(p) < 0) return;
    const std::string& name = parameters_[p].name;
    const Kind change = trained_[p] ? Kind::kFreeze : Kind::kThaw;
    const Kind back = trained_[p] ? Kind::kThaw : Kind::kFreeze;
    Add({.kind = change, .parameter = name, .only_rank = rank});
    FullForward();
    FailingBackward(Outcome::kLogicError, {name});
    Add({.kind = back, .parameter = name, .only_rank = rank});
    ZeroGrad();
  }

  void Nan() {
    FullForward();
    const int rank = Below(num_ranks());
    FailingBackward(Outcome::kNonFinite, {parameters_[AlwaysReachedBut(-1)].name}).nan_rank = rank;
    ZeroGrad();
  }

  void Throw() {
    FullForward();
    const int rank = Below(num_ranks());
    std::vector<std::string> reached;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      if (trained_[p] && IsReached(p, rank, losses_.size())) {
        reached.push_back(parameters_[p].name);
      }
    }
    Instruction& backward = FailingBackward(Outcome::kLost, {});
    backward.throwing_rank = rank;
    backward.parameter = reached[Below(reached.size())];
    ended_ = true;
  }

  Program& program_;
  ops::Generator& random_;
  const std::vector<ParameterPlan> parameters_;
  std::vector<bool> trained_;
  std::vector<bool> thawed_now_;                 // since the last Backward that averaged
  std::vector<std::vector<bool>> has_gradient_;  // by rank and parameter
  std::vector<std::vector<Skipped>> losses_;     // that haven't gone back: what was left out
  std::vector<Skipped> static_skipped_;          // by rank
  bool is_local_ = false;                        // gradients aren't averages
  bool ended_ = false;
};

ModelPlan MakeModel(ops::Generator& random) {
  const auto chance = [&](double probability) { return random.Uniform() < probability; };
  ModelPlan model;
  model.dtype = chance(0.5) ? ops::DType::kFloat64 : ops::DType::kFloat32;
  model.width = 1 + static_cast<int>(random.Below(6));
  if (chance(0.3)) model.num_embeddings = 2 + static_cast<int>(random.Below(5));
  model.num_outputs = 1 + static_cast<int>(random.Below(3));
  std::vector<int> linear;
  for (int b = static_cast<int>(random.Below(5)); b > 0; --b) {
    Block block{.optional = chance(0.4), .checkpointed = chance(0.3)};
    if (chance(0.25)) {
      block.kind = Block::Kind::kScale;
    } else if (!linear.empty() && chance(0.3)) {
      block.kind = Block::Kind::kTied;
      block.tied_to = linear[random.Below(linear.size())];
    } else {
      linear.push_back(static_cast<int>(model.blocks.size()));
    }
    model.blocks.push_back(block);
  }
  return model;
}

std::string ToText(const Block& block, size_t index) {
  std::string text = fmt::format("block{}: ", index);
  if (block.kind == Block::Kind::kLinear) text += "linear";
  if (block.kind == Block::Kind::kTied) text += fmt::format("tied to block{}", block.tied_to);
  if (block.kind == Block::Kind::kScale) text += "scale";
  if (block.optional) text += ", optional";
  if (block.checkpointed) text += ", checkpointed";
  return text;
}

std::string OnWhom(const Instruction& instruction) {
  const int rank = instruction.only_rank;
  return rank < 0 ? instruction.parameter
                  : fmt::format("{} on rank {} alone", instruction.parameter, rank);
}

std::string BackwardText(const Instruction& instruction) {
  std::string text = fmt::format("backward of {} losses", instruction.num_losses);
  if (instruction.no_sync) text += ", no_sync";
  if (instruction.nan_rank >= 0) text += fmt::format(", NaN on rank {}", instruction.nan_rank);
  if (instruction.throwing_rank >= 0) {
    text += fmt::format(", a hook of {} throws on rank {}", instruction.parameter,
                        instruction.throwing_rank);
  }
  if (instruction.outcome != Outcome::kFine) {
    text += fmt::format(": raises on all ranks {}", instruction.names);
  }
  return text;
}

}  // namespace

std::vector<ParameterPlan> ParametersOf(const ModelPlan& model) {
  std::vector<ParameterPlan> parameters;
  if (model.num_embeddings > 0) parameters.push_back({"table", {}});
  std::vector<size_t> weights(model.blocks.size());  // of linear blocks
  const auto add = [&](int block, const char* name) {
    const bool optional = model.blocks[block].optional;
    parameters.push_back({fmt::format("block{}.{}", block, name),
                          optional ? std::vector<int>{block} : std::vector<int>{}});
  };
  for (int b = 0; b < static_cast<int>(model.blocks.size()); ++b) {
    const Block& block = model.blocks[b];
    if (block.kind == Block::Kind::kScale) {
      add(b, "scale");
      continue;
    }
    if (block.kind == Block::Kind::kLinear) {
      weights[b] = parameters.size();
      add(b, "weight");
    } else {
      std::vector<int>& users = parameters[weights[block.tied_to]].blocks;
      if (!block.optional) users.clear();
      if (block.optional && !users.empty()) users.push_back(b);
    }
    add(b, "bias");
  }
  parameters.push_back({"head.weight", {}});
  parameters.push_back({"head.bias", {}});
  return parameters;
}

bool Program::raises() const {
  return std::ranges::any_of(instructions,
                             [](const auto& i) { return i.outcome != Outcome::kFine; });
}

Program MakeProgram(uint64_t seed, int64_t index, int num_ranks) {
  ops::Generator random(seed, /*stream=*/index);
  const auto chance = [&](double probability) { return random.Uniform() < probability; };
  Program program{.seed = seed, .index = index};
  TestSetting& setting = program.setting;
  setting.num_ranks = num_ranks > 0 ? num_ranks : 2 + static_cast<int>(random.Below(3));
  setting.backend = chance(0.5) ? "auto" : "gloo";
  if (setting.backend == "auto" && chance(0.2)) setting.num_hosts = 2;
  program.rows = 1 + static_cast<int>(random.Below(3));
  program.model = MakeModel(random);
  const std::vector<ParameterPlan> parameters = ParametersOf(program.model);
  program.static_graph = chance(0.2);
  program.find_unused_parameters = !program.static_graph && chance(0.4);
  for (size_t p = 0; p + 2 < parameters.size(); ++p) {
    if (chance(0.1)) program.frozen.push_back(parameters[p].name);
  }
  constexpr int64_t kBucketBytes[] = {1, 40, 100, 400, 1 << 20};
  program.bucket_bytes = kBucketBytes[random.Below(std::size(kBucketBytes))];
  program.first_bucket_bytes = kBucketBytes[random.Below(std::size(kBucketBytes))];
  program.check_finite = chance(0.4);
  program.hook = chance(0.3);
  program.adam = chance(0.5);
  program.weight_decay = chance(0.5) ? 0.1 : 0;
  Writer(program, random).Write();
  return program;
}

std::string ToText(const Instruction& instruction) {
  switch (instruction.kind) {
    case Kind::kForward: {
      std::string text = "forward";
      if (instruction.inner) text += " through the model itself";
      if (instruction.no_sync) text += ", no_sync";
      if (std::ranges::any_of(instruction.skipped, [](Skipped s) { return s != 0; })) {
        text += fmt::format(", bits of blocks left out by rank: {}", instruction.skipped);
      }
      return text;
    }
    case Kind::kBackward:
      return BackwardText(instruction);
    case Kind::kFreeze:
      return "freeze " + OnWhom(instruction);
    case Kind::kThaw:
      return "thaw " + OnWhom(instruction);
    case Kind::kClip:
      return fmt::format("clip to norm {}", instruction.max_norm);
    case Kind::kZeroGrad:
      return "zero_grad";
    case Kind::kClearGrad:
      return "clear the gradient of " + instruction.parameter;
    case Kind::kStep:
      return "step";
  }
  return "";
}

std::string ToText(const Program& program) {
  std::string text = fmt::format(
      "random_programs --seed={} --only={}\n{} ranks on {} hosts, backend {}, {} rows each\n"
      "{} of width {}, {} embeddings, {} outputs\n",
      program.seed, program.index, program.setting.num_ranks, program.setting.num_hosts,
      program.setting.backend, program.rows, Name(program.model.dtype), program.model.width,
      program.model.num_embeddings, program.model.num_outputs);
  for (size_t b = 0; b < program.model.blocks.size(); ++b) {
    text += ToText(program.model.blocks[b], b) + "\n";
  }
  text += fmt::format(
      "bucket_bytes {}, first {}, find_unused_parameters {}, static_graph {}, check_finite {}, "
      "hook {}, {} with weight decay {}, frozen at first {}\n",
      program.bucket_bytes, program.first_bucket_bytes, program.find_unused_parameters,
      program.static_graph, program.check_finite, program.hook, program.adam ? "AdamW" : "SGD",
      program.weight_decay, program.frozen);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    text += fmt::format("{:3}: {}\n", i, ToText(program.instructions[i]));
  }
  return text;
}

}  // namespace ddp::soak
