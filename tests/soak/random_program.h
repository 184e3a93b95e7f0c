// A random training program: a small model, the wrapper's options, and what is done with them, one
// instruction after the other. It says by itself what must come of it: where every rank's Backward
// raises, and with which names; everything else must give one process's numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddp/collectives/testing.h"
#include "ops/tensor/dtype.h"

namespace ddp::soak {

// [rows, width] -> [rows, width].
struct Block {
  enum class Kind {
    kLinear,  // tanh(x W^T + b)
    kTied,    // the same with the weight of an earlier kLinear
    kScale,   // x * s
  };
  Kind kind = Kind::kLinear;
  int tied_to = 0;        // kTied: the earlier block
  bool optional = false;  // a branch, x + block(x), that a forward pass may leave out
  bool checkpointed = false;
};

// A table of embeddings or nothing, the blocks, and a linear layer.
struct ModelPlan {
  ops::DType dtype = ops::DType::kFloat64;
  int width = 1;
  int num_embeddings = 0;  // 0: inputs are rows of numbers
  std::vector<Block> blocks = {};
  int num_outputs = 1;
};

struct ParameterPlan {
  std::string name = {};
  std::vector<int> blocks = {};  // that use it; none: every forward pass does
};
// In the order of registration.
std::vector<ParameterPlan> ParametersOf(const ModelPlan& model);

// Blocks that a rank's forward pass leaves out, a bit each.
using Skipped = uint32_t;

struct Instruction {
  enum class Kind { kForward, kBackward, kFreeze, kThaw, kClip, kZeroGrad, kClearGrad, kStep };
  enum class Outcome {
    kFine,
    kLogicError,  // std::logic_error on all ranks, and training goes on
    kNonFinite,   // NonFiniteGradientError on all ranks, and training goes on
    kLost,        // one rank throws, the others hear of it; the end
  };
  Kind kind = Kind::kStep;
  bool no_sync = false;                 // kForward, kBackward
  std::vector<Skipped> skipped = {};    // kForward: by rank
  bool inner = false;                   // kForward: through the model rather than the wrapper
  int num_losses = 0;                   // kBackward: of the oldest that there are
  int nan_rank = -1;                    // kBackward: whose loss is NaN
  int throwing_rank = -1;               // kBackward: where a hook of `parameter` throws
  std::string parameter = {};           // kFreeze, kThaw, kClearGrad
  int only_rank = -1;                   // kFreeze, kThaw: by mistake; -1: all ranks
  double max_norm = 0;                  // kClip
  Outcome outcome = Outcome::kFine;     // kBackward
  std::vector<std::string> names = {};  // one of which the error names
};

struct Program {
  uint64_t seed = 0;
  int64_t index = 0;
  TestSetting setting = {};
  int rows = 1;  // of each rank, in each batch
  ModelPlan model = {};
  std::vector<std::string> frozen = {};  // before the model is wrapped
  int64_t bucket_bytes = 1;
  int64_t first_bucket_bytes = 1;
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool check_finite = false;
  bool hook = false;  // that adds up as the all-reduce does
  bool adam = false;  // AdamW; else SGD with momentum
  double weight_decay = 0;
  std::vector<Instruction> instructions = {};

  bool raises() const;
};

// The index-th program of `seed`. `num_ranks` 0: 2 to 4.
Program MakeProgram(uint64_t seed, int64_t index, int num_ranks);

std::string ToText(const Instruction& instruction);
// The whole program, a line for each instruction, and how to replay it.
std::string ToText(const Program& program);

}  // namespace ddp::soak
