// Random programs in readable form.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/soak/random_program.h"

namespace ddp::soak {
namespace {

using Kind = Instruction::Kind;
using Outcome = Instruction::Outcome;

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
