#include "launch/flags/flags.h"

#include <absl/flags/flag.h>
#include <absl/time/time.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "ddp/store/meeting_point.h"
#include "launch/flags/parser.h"
#include "launch/flags/signal_names.h"
#include "launch/text/text.h"

// Flags without a default of their own take what suits the model (launch/models/catalog).
ABSL_FLAG(std::string, model, "mlp", "what to train");
ABSL_FLAG(std::string, hidden, "1024,1024", "widths of the mlp's hidden layers");
ABSL_FLAG(int64_t, layers, 4, "blocks of the gpt");
ABSL_FLAG(int64_t, width, 256, "of the gpt's embeddings");
ABSL_FLAG(int64_t, heads, 4, "of the gpt's attention");
ABSL_FLAG(int64_t, context, 128, "tokens that the gpt sees at once");
ABSL_FLAG(std::optional<int64_t>, vocab, std::nullopt,
          "tokens that the gpt knows; 256 for text, 50257 for tokens, 512 for synthetic");
ABSL_FLAG(std::optional<std::string>, data, std::nullopt,
          "digits (drawn), synthetic (random), mnist:DIR (IDX files), cifar10:DIR (binary files), "
          "text:FILE (bytes) or tokens:GLOB (uint16 shards)");

ABSL_FLAG(std::optional<int64_t>, batch_size, std::nullopt, "examples per rank and batch");
ABSL_FLAG(std::optional<int64_t>, epochs, std::nullopt, "passes over the data");
ABSL_FLAG(int64_t, max_steps, 0, "stop after this many steps; 0: after --epochs");
ABSL_FLAG(std::optional<std::string>, optimizer, std::nullopt, "sgd, adam, adamw or lion");
ABSL_FLAG(std::optional<double>, learning_rate, std::nullopt, "step size");
ABSL_FLAG(std::optional<double>, momentum, std::nullopt, "of sgd");
ABSL_FLAG(bool, nesterov, false, "Nesterov's momentum, of sgd");
ABSL_FLAG(double, weight_decay, 0, "pull of the weights towards 0");
ABSL_FLAG(std::optional<double>, clip_norm, std::nullopt,
          "largest norm of all gradients together; 0: any");
ABSL_FLAG(std::optional<std::string>, schedule, std::nullopt,
          "of the learning rate: constant, linear, cosine, step or one-cycle");
ABSL_FLAG(std::optional<int64_t>, warmup_steps, std::nullopt,
          "steps in which the learning rate grows from 0");
ABSL_FLAG(int64_t, step_size, 0,
          "steps after which the step schedule divides by 10; 0: a third of all");
ABSL_FLAG(int64_t, accumulate_steps, 1, "batches whose gradients are added up for one step");
ABSL_FLAG(std::string, precision, "fp32",
          "of parameters and activations: fp32, bf16 or fp16, with float32 masters of the weights");
ABSL_FLAG(std::string, average, "ranks",
          "what gradients become: ranks: the mean of the ranks' means; samples: the mean over all "
          "examples of a step, however they are spread");
ABSL_FLAG(std::optional<std::string>, on_nonfinite, std::nullopt,
          "what a NaN or infinite gradient does: stop, naming parameter and rank; skip the step on "
          "all ranks; ignore");
ABSL_FLAG(int64_t, seed, 0, "of initial weights, synthetic data and the order of examples");

ABSL_FLAG(int64_t, nproc_per_node, 2,
          "ranks to start on this machine, unless a launcher started this one: see --launcher");
ABSL_FLAG(int64_t, max_restarts, 0,
          "how often all ranks are started again after a failure, from the last checkpoint");
ABSL_FLAG(
    std::string, backend, "auto",
    "what carries data between ranks: auto (shared memory inside a host, gloo between hosts), "
    "shm, gloo, or mpi where mpirun started each rank");
ABSL_FLAG(std::string, interface, "",
          "network interface that other ranks connect to, as eth0; chosen where not given");
ABSL_FLAG(std::string, device, "cpu", "where tensors live");
ABSL_FLAG(int64_t, threads, 1, "threads per rank; results don't depend on it");
ABSL_FLAG(int64_t, bucket_bytes, 25 << 20, "bytes of gradients that travel together");
ABSL_FLAG(std::string, hook, "none",
          "how gradients travel: none (as they are), fp16, bf16, int8, topk[:RATIO], "
          "powersgd[:RANK[:START]], local[:PERIOD[:START]]; fp16+powersgd:2 is one around another");
ABSL_FLAG(bool, find_unused_parameters, false, "steps may leave parameters out");
ABSL_FLAG(bool, static_graph, false, "every step reaches the parameters that the first one does");
ABSL_FLAG(bool, sync_batch_norm, false, "batch statistics are those of all ranks' batches");
ABSL_FLAG(bool, overlap_optimizer, false,
          "the optimizer steps each bucket as soon as it is averaged; the bits are the same");
ABSL_FLAG(absl::Duration, timeout, absl::Minutes(10), "longest wait for another rank");
ABSL_FLAG(absl::Duration, heartbeat_timeout, absl::Seconds(60),
          "silence of another machine, or of the network to it, after which it counts as lost");
ABSL_FLAG(std::string, flight_record_dir, "",
          "folder for what the ranks' collectives did last, when one fails or on SIGUSR2");

ABSL_FLAG(std::string, checkpoint_dir, "", "folder for checkpoints, from which a run goes on");
ABSL_FLAG(int64_t, checkpoint_every, 500,
          "steps between checkpoints; 0: only at the end, where there always is one");
ABSL_FLAG(int64_t, keep, 2, "checkpoints that stay, the newest ones");
ABSL_FLAG(std::string, resume, "auto",
          "auto: go on from the newest whole checkpoint, if there is one; must: only from one; "
          "never: begin anew, in a folder without checkpoints");
ABSL_FLAG(std::string, stop_signal, "USR1",
          "with --checkpoint_dir: asks the run to save what it has, and to end with exit code 75; "
          "so does TERM");
ABSL_FLAG(absl::Duration, stop_before_end, absl::Minutes(2),
          "the same so long before the end of the job that Slurm tells");
ABSL_FLAG(std::string, init_from, "",
          "safetensors file with weights to begin with, of --save, PyTorch or Hugging Face");

ABSL_FLAG(int64_t, log_every, 50, "steps between lines of progress");
ABSL_FLAG(int64_t, eval_every, 0, "steps between evaluations; 0: only at the end");
ABSL_FLAG(std::string, summary_json, "", "file for a summary of the run");
ABSL_FLAG(std::string, save, "", "file for the weights at the end, as safetensors");
ABSL_FLAG(std::string, losses, "", "file for the exact loss of every step, in hexadecimal");

namespace launch {
namespace {

const FlagGroups& Groups() {
  static const FlagGroups groups = {
      {"Model and data",
       {"model", "hidden", "layers", "width", "heads", "context", "vocab", "data"}},
      {"Training",
       {"batch_size", "epochs", "max_steps", "optimizer", "learning_rate", "momentum", "nesterov",
        "weight_decay", "clip_norm", "schedule", "warmup_steps", "step_size", "accumulate_steps",
        "precision", "average", "on_nonfinite", "seed"}},
      {"Ranks",
       {"nproc_per_node", "max_restarts", "launcher", "expect_world", "backend", "interface",
        "device", "threads", "bucket_bytes", "hook", "find_unused_parameters", "static_graph",
        "sync_batch_norm", "overlap_optimizer", "timeout", "heartbeat_timeout",
        "flight_record_dir"}},
      {"Checkpoints",
       {"checkpoint_dir", "checkpoint_every", "keep", "resume", "stop_signal", "stop_before_end",
        "init_from"}},
      {"Output", {"log_every", "eval_every", "summary_json", "losses", "save"}},
  };
  return groups;
}

std::vector<int64_t> ParseWidths(const std::string& text) {
  if (const auto widths = ParseWholeNumbers(text)) return *widths;
  throw std::invalid_argument(
      fmt::format("--hidden={}: expected whole numbers with commas between, as 1024,1024", text));
}

DataSource ParseData(const std::string& text, const Environment& environment) {
  DataSource data = NamingFlag("data", text, [&] { return ParseDataSource(text); });
  data.path = FromUsersDirectory(data.path, environment);
  return data;
}

GptOptions GptFromFlags(const DataSource& data) {
  return {.layers = absl::GetFlag(FLAGS_layers),
          .width = absl::GetFlag(FLAGS_width),
          .heads = absl::GetFlag(FLAGS_heads),
          .context = absl::GetFlag(FLAGS_context),
          .vocab = absl::GetFlag(FLAGS_vocab).value_or(VocabularyOf(data))};
}

TrainOptions OptionsFromFlags(const Environment& environment) {
  const std::string name = absl::GetFlag(FLAGS_model);
  const ModelInfo model = NamingFlag("model", name, [&] { return FindModel(name); });
  const std::string device = absl::GetFlag(FLAGS_device);
  const bool has_max_steps = absl::GetFlag(FLAGS_max_steps) != 0;
  TrainOptions options;
  options.model = model.name;
  options.hidden = ParseWidths(absl::GetFlag(FLAGS_hidden));
  options.data = ParseData(absl::GetFlag(FLAGS_data).value_or(model.data), environment);
  options.gpt = GptFromFlags(options.data);
  options.batch_size = absl::GetFlag(FLAGS_batch_size).value_or(model.batch_size);
  options.epochs = absl::GetFlag(FLAGS_epochs).value_or(has_max_steps ? 0 : model.epochs);
  options.max_steps = absl::GetFlag(FLAGS_max_steps);
  options.optimizer = absl::GetFlag(FLAGS_optimizer).value_or(model.optimizer);
  options.learning_rate =
      absl::GetFlag(FLAGS_learning_rate).value_or(DefaultLearningRate(model, options.optimizer));
  const bool is_sgd = options.optimizer == "sgd";
  options.momentum = absl::GetFlag(FLAGS_momentum).value_or(is_sgd ? model.momentum : 0);
  options.nesterov = absl::GetFlag(FLAGS_nesterov);
  options.weight_decay = absl::GetFlag(FLAGS_weight_decay);
  options.clip_norm = absl::GetFlag(FLAGS_clip_norm).value_or(model.clip_norm);
  options.schedule = absl::GetFlag(FLAGS_schedule).value_or(model.schedule);
  options.warmup_steps = absl::GetFlag(FLAGS_warmup_steps).value_or(model.warmup_steps);
  options.step_size = absl::GetFlag(FLAGS_step_size);
  options.accumulate_steps = absl::GetFlag(FLAGS_accumulate_steps);
  options.precision = absl::GetFlag(FLAGS_precision);
  options.average = absl::GetFlag(FLAGS_average);
  options.on_nonfinite = absl::GetFlag(FLAGS_on_nonfinite)
                             .value_or(options.precision == "fp16" ? "skip" : options.on_nonfinite);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.backend = absl::GetFlag(FLAGS_backend);
  options.interface = absl::GetFlag(FLAGS_interface);
  options.device = NamingFlag("device", device, [&] { return ops::Device::Parse(device); });
  options.threads = absl::GetFlag(FLAGS_threads);
  options.bucket_bytes = absl::GetFlag(FLAGS_bucket_bytes);
  options.hook = absl::GetFlag(FLAGS_hook);
  options.find_unused_parameters = absl::GetFlag(FLAGS_find_unused_parameters);
  options.static_graph = absl::GetFlag(FLAGS_static_graph);
  options.sync_batch_norm = absl::GetFlag(FLAGS_sync_batch_norm);
  options.overlap_optimizer = absl::GetFlag(FLAGS_overlap_optimizer);
  options.timeout = absl::ToChronoNanoseconds(absl::GetFlag(FLAGS_timeout));
  options.heartbeat_timeout = absl::ToChronoNanoseconds(absl::GetFlag(FLAGS_heartbeat_timeout));
  options.flight_record_dir = absl::GetFlag(FLAGS_flight_record_dir);
  options.checkpoint_dir = FromUsersDirectory(absl::GetFlag(FLAGS_checkpoint_dir), environment);
  options.checkpoint_every = absl::GetFlag(FLAGS_checkpoint_every);
  options.keep = absl::GetFlag(FLAGS_keep);
  options.resume = absl::GetFlag(FLAGS_resume);
  // Started again by the agent, a run goes on with what it has begun.
  const std::string restarts = environment(ddp::kRestartCountVariable).value_or("0");
  if (options.resume == "never" && restarts != "0") options.resume = "auto";
  options.stop_signal = ParseStopSignal(absl::GetFlag(FLAGS_stop_signal));
  options.stop_before_end = absl::ToChronoNanoseconds(absl::GetFlag(FLAGS_stop_before_end));
  options.init_from = FromUsersDirectory(absl::GetFlag(FLAGS_init_from), environment);
  options.log_every = absl::GetFlag(FLAGS_log_every);
  options.eval_every = absl::GetFlag(FLAGS_eval_every);
  options.summary_json = FromUsersDirectory(absl::GetFlag(FLAGS_summary_json), environment);
  options.losses = FromUsersDirectory(absl::GetFlag(FLAGS_losses), environment);
  options.save = FromUsersDirectory(absl::GetFlag(FLAGS_save), environment);
  return options;
}

// "10 for linear, 64 for mlp/convnet": the defaults that depend on the model, from the catalog.
template <class Value>
std::string PerModel(Value ModelInfo::*member) {
  std::vector<std::string> parts;
  std::vector<Value> values;
  for (const ModelInfo& model : Models()) {
    const auto place = std::ranges::find(values, model.*member) - values.begin();
    if (place == std::ssize(values)) {
      values.push_back(model.*member);
      parts.push_back(fmt::format("{} for {}", model.*member, model.name));
    } else {
      parts[place] += "/" + model.name;
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string HelpText() {
  std::string models;
  for (const ModelInfo& model : Models()) {
    models += fmt::format("  {:<18}{}\n", model.name, model.description);
  }
  return fmt::format(
      "Trains a model on several ranks, each with a part of every batch.\n\n"
      "  bazel run //launch:train                           two ranks learn to read digits\n"
      "  bazel run //launch:train -- --data=mnist:DIR --nproc_per_node=4\n\n"
      "Models\n{}\n{}",
      models,
      DescribeFlags(Groups(), {{"data", PerModel(&ModelInfo::data)},
                               {"batch_size", PerModel(&ModelInfo::batch_size)},
                               {"epochs", PerModel(&ModelInfo::epochs)},
                               {"optimizer", PerModel(&ModelInfo::optimizer)},
                               {"learning_rate", PerModel(&ModelInfo::learning_rate)},
                               {"momentum", PerModel(&ModelInfo::momentum)},
                               {"clip_norm", PerModel(&ModelInfo::clip_norm)},
                               {"schedule", PerModel(&ModelInfo::schedule)},
                               {"warmup_steps", PerModel(&ModelInfo::warmup_steps)},
                               {"on_nonfinite", "ignore, but skip with --precision=fp16"},
                               {"vocab", "what the data has"}}));
}

CommandLine ParseCommandLine(const std::vector<std::string>& arguments,
                             const Environment& environment) {
  SetFlags(arguments, Groups());
  CommandLine command_line;
  command_line.num_ranks =
      NumberFrom(1, 1024, "nproc_per_node", absl::GetFlag(FLAGS_nproc_per_node));
  command_line.max_restarts =
      NumberFrom(0, 1'000'000, "max_restarts", absl::GetFlag(FLAGS_max_restarts));
  command_line.launcher = ReadLauncherFlags();
  command_line.train = OptionsFromFlags(environment);
  Validate(command_line.train);
  return command_line;
}

}  // namespace launch
