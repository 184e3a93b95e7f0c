#include "launch/trainer/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>

#include "ddp/replicated/communication_hooks.h"
#include "launch/text/text.h"
#include "ops/optim/schedule.h"

namespace launch {
namespace {

template <class T>
void Require(bool holds, const char* flag, const T& value, const std::string& expected) {
  if (!holds) {
    throw std::invalid_argument(fmt::format("--{}={}: expected {}", flag, value, expected));
  }
}

void RequireAtLeast(int64_t low, const char* flag, int64_t value) {
  Require(value >= low, flag, value, fmt::format("a whole number, at least {}", low));
}

void RequireNotNegative(const char* flag, double value) {
  Require(std::isfinite(value) && value >= 0, flag, value, "a finite number, at least 0");
}

void ValidateGpt(const TrainOptions& options) {
  const GptOptions& gpt = options.gpt;
  RequireAtLeast(1, "layers", gpt.layers);
  RequireAtLeast(1, "width", gpt.width);
  RequireAtLeast(1, "heads", gpt.heads);
  RequireAtLeast(1, "context", gpt.context);
  Require(gpt.width % gpt.heads == 0, "heads", gpt.heads,
          fmt::format("a number that divides --width={}", gpt.width));
  const int64_t bytes = VocabularyOf(options.data);
  const bool is_text = options.data.name == "text";
  RequireAtLeast(is_text ? bytes : 1, "vocab", gpt.vocab);
}

void ValidateModelAndData(const TrainOptions& options) {
  NamingFlag("model", options.model, [&] { FindModel(options.model); });
  NamingFlag("data", options.data.ToString(),
             [&] { CheckGoTogether(FindModel(options.model), options.data); });
  for (const int64_t width : options.hidden) RequireAtLeast(1, "hidden", width);
  if (options.model == "gpt") ValidateGpt(options);
}

void ValidateOptimizer(const TrainOptions& options) {
  const std::vector<std::string>& known = KnownOptimizers();
  if (std::find(known.begin(), known.end(), options.optimizer) == known.end()) {
    throw std::invalid_argument(fmt::format("--optimizer={}: {}", options.optimizer,
                                            UnknownName("optimizer", options.optimizer, known)));
  }
  RequireNotNegative("learning_rate", options.learning_rate);
  RequireNotNegative("momentum", options.momentum);
  RequireNotNegative("weight_decay", options.weight_decay);
  RequireNotNegative("clip_norm", options.clip_norm);
  Require(!options.nesterov || options.momentum > 0, "nesterov", options.nesterov,
          "sgd with --momentum above 0");
  NamingFlag("schedule", options.schedule, [&] { ops::optim::ParseSchedule(options.schedule); });
  RequireAtLeast(0, "warmup_steps", options.warmup_steps);
  RequireAtLeast(0, "step_size", options.step_size);
  Require(options.optimizer == "sgd" || options.momentum == 0, "momentum", options.momentum,
          fmt::format("0, as {} has betas instead", options.optimizer));
}

void RequireOneOf(const std::vector<std::string>& known, const char* flag,
                  const std::string& value) {
  Require(std::ranges::find(known, value) != known.end(), flag, value,
          fmt::format("one of {}", fmt::join(known, ", ")));
}

// Two flags that are good only without each other, as "--hook=local".
void RefuseTogether(bool both, const std::string& one, const std::string& other,
                    const std::string& reason) {
  if (both) {
    throw std::invalid_argument(fmt::format("--{} doesn't go with --{}: {}", one, other, reason));
  }
}

void ValidateOverlap(const TrainOptions& options, bool drifts) {
  const auto refuse = [&](bool other_is_on, const std::string& other, const std::string& reason) {
    RefuseTogether(options.overlap_optimizer && other_is_on, "overlap_optimizer", other, reason);
  };
  refuse(options.clip_norm > 0, fmt::format("clip_norm={}", options.clip_norm),
         "the norm isn't known before the last gradient; --clip_norm=0 would do");
  refuse(options.precision == "fp16", "precision=fp16",
         "whether a step is taken isn't known before the last gradient");
  refuse(options.on_nonfinite == "skip", "on_nonfinite=skip",
         "whether a step is taken isn't known before the last gradient");
  refuse(drifts, "hook=" + options.hook, "its averages come after whole steps");
  refuse(options.find_unused_parameters, "find_unused_parameters",
         "which gradients there are isn't known before the last bucket");
  refuse(options.static_graph, "static_graph",
         "which gradients there are isn't known before the last bucket");
}

void ValidateReplication(const TrainOptions& options) {
  RequireOneOf({"fp32", "bf16", "fp16"}, "precision", options.precision);
  RequireOneOf({"ranks", "samples"}, "average", options.average);
  RequireOneOf({"stop", "skip", "ignore"}, "on_nonfinite", options.on_nonfinite);
  const bool drifts = NamingFlag("hook", options.hook,
                                 [&] { return ddp::MakeHook(options.hook).averaging.has_value(); });
  const bool is_fp16 = options.precision == "fp16";
  RefuseTogether(is_fp16 && options.on_nonfinite != "skip", "on_nonfinite=" + options.on_nonfinite,
                 "precision=fp16",
                 "its loss scaler finds the largest scale by overflows, which must be skipped");
  RefuseTogether(drifts && is_fp16, "hook=" + options.hook, "precision=fp16",
                 "ranks with gradients of their own would skip other steps");
  RefuseTogether(drifts && options.average == "samples", "hook=" + options.hook, "average=samples",
                 "it averages parameters, which have no samples to count");
  Require(!options.sync_batch_norm || FindModel(options.model).has_batch_norm, "sync_batch_norm",
          options.sync_batch_norm,
          fmt::format("a model with batch norm, which {} isn't", options.model));
  ValidateOverlap(options, drifts);
}

void ValidateCheckpoints(const TrainOptions& options) {
  RequireAtLeast(0, "checkpoint_every", options.checkpoint_every);
  RequireAtLeast(1, "keep", options.keep);
  RequireOneOf({"auto", "never", "must"}, "resume", options.resume);
  Require(options.resume != "must" || !options.checkpoint_dir.empty(), "resume", options.resume,
          "a --checkpoint_dir to go on from");
}

void ValidateDevice(const ops::Device& device) {
  NamingFlag("device", device.ToString(), [&] {
    ops::CheckAvailable(device);
    if (!device.is_cpu()) {
      throw std::invalid_argument("the trainer's models run on the cpu only so far; use cpu");
    }
  });
}

}  // namespace

const std::vector<std::string>& KnownOptimizers() {
  static const std::vector<std::string> known = {"adam", "adamw", "lion", "sgd"};
  return known;
}

double DefaultLearningRate(const ModelInfo& model, const std::string& optimizer) {
  if (optimizer == model.optimizer) return model.learning_rate;
  static const std::map<std::string, double> rates = {
      {"adam", 0.001}, {"adamw", 0.001}, {"lion", 0.0001}, {"sgd", 0.01}};
  const auto found = rates.find(optimizer);
  return found == rates.end() ? 0 : found->second;  // Validate names an unknown optimizer
}

ModelOptions ModelOptionsOf(const TrainOptions& options) {
  return {.hidden = options.hidden, .gpt = options.gpt, .images = ImagesOf(options.data)};
}

ops::DType PrecisionOf(const TrainOptions& options) {
  if (options.precision == "bf16") return ops::DType::kBFloat16;
  if (options.precision == "fp16") return ops::DType::kFloat16;
  return ops::DType::kFloat32;
}

void Validate(const TrainOptions& options) {
  ValidateModelAndData(options);
  RequireAtLeast(1, "batch_size", options.batch_size);
  RequireAtLeast(0, "epochs", options.epochs);
  RequireAtLeast(0, "max_steps", options.max_steps);
  Require(options.epochs > 0 || options.max_steps > 0, "epochs", options.epochs,
          "a limit: --epochs or --max_steps above 0");
  ValidateOptimizer(options);
  ValidateReplication(options);
  RequireAtLeast(1, "accumulate_steps", options.accumulate_steps);
  RequireAtLeast(0, "seed", options.seed);
  ValidateDevice(options.device);
  Require(options.threads >= 1 && options.threads <= 1024, "threads", options.threads,
          "a whole number from 1 to 1024");
  RequireAtLeast(1, "bucket_bytes", options.bucket_bytes);
  Require(options.timeout > ddp::Duration::zero(), "timeout",
          fmt::format("{}s", std::chrono::duration<double>(options.timeout).count()),
          "a duration above 0, such as 90s or 10m");
  Require(options.heartbeat_timeout > ddp::Duration::zero(), "heartbeat_timeout",
          fmt::format("{}s", std::chrono::duration<double>(options.heartbeat_timeout).count()),
          "a duration above 0, such as 90s or 10m");
  ValidateCheckpoints(options);
  RequireAtLeast(1, "log_every", options.log_every);
  RequireAtLeast(0, "eval_every", options.eval_every);
}

std::vector<std::pair<std::string, std::string>> SharedOptions(const TrainOptions& options) {
  // Not the data's path, which may differ from machine to machine, nor threads, which change
  // no result.
  return {
      {"model", options.model},
      {"hidden", fmt::format("{}", fmt::join(options.hidden, ","))},
      {"layers", std::to_string(options.gpt.layers)},
      {"width", std::to_string(options.gpt.width)},
      {"heads", std::to_string(options.gpt.heads)},
      {"context", std::to_string(options.gpt.context)},
      {"vocab", std::to_string(options.gpt.vocab)},
      {"data", options.data.name},
      {"batch_size", std::to_string(options.batch_size)},
      {"epochs", std::to_string(options.epochs)},
      {"max_steps", std::to_string(options.max_steps)},
      {"optimizer", options.optimizer},
      {"learning_rate", fmt::format("{}", options.learning_rate)},
      {"momentum", fmt::format("{}", options.momentum)},
      {"nesterov", fmt::format("{}", options.nesterov)},
      {"weight_decay", fmt::format("{}", options.weight_decay)},
      {"clip_norm", fmt::format("{}", options.clip_norm)},
      {"schedule", options.schedule},
      {"warmup_steps", std::to_string(options.warmup_steps)},
      {"step_size", std::to_string(options.step_size)},
      {"accumulate_steps", std::to_string(options.accumulate_steps)},
      {"seed", std::to_string(options.seed)},
      {"precision", options.precision},
      {"average", options.average},
      {"on_nonfinite", options.on_nonfinite},
      {"hook", options.hook},
      {"find_unused_parameters", fmt::format("{}", options.find_unused_parameters)},
      {"static_graph", fmt::format("{}", options.static_graph)},
      {"sync_batch_norm", fmt::format("{}", options.sync_batch_norm)},
      {"overlap_optimizer", fmt::format("{}", options.overlap_optimizer)},
      {"bucket_bytes", std::to_string(options.bucket_bytes)},
      {"checkpoint_dir", options.checkpoint_dir.empty() ? "not given" : "given"},
      {"checkpoint_every", std::to_string(options.checkpoint_every)},
      {"resume", options.resume},
      {"init_from", options.init_from.empty() ? "not given" : "given"},
      {"log_every", std::to_string(options.log_every)},
      {"eval_every", std::to_string(options.eval_every)},
      {"losses", options.losses.empty() ? "not given" : "given"},
  };
}

}  // namespace launch
