// TrainOptions: all that a training run depends on, as plain values. launch/flags makes one from
// the command line; a test or a program of another kind fills one in directly.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ddp/duration.h"
#include "launch/models/catalog.h"
#include "ops/tensor/device.h"
#include "ops/tensor/dtype.h"

namespace launch {

// Each option is the flag of the same name.
struct TrainOptions {
  // What learns from what.
  std::string model = "mlp";
  std::vector<int64_t> hidden = {1024, 1024};  // mlp
  GptOptions gpt;                              // --layers, --width, --heads, --context, --vocab
  DataSource data = {"digits", ""};

  // How.
  int64_t batch_size = 64;  // of a rank
  int64_t epochs = 1;       // 0: no limit
  int64_t max_steps = 0;    // 0: no limit; the smaller limit holds
  std::string optimizer = "sgd";
  double learning_rate = 0.01;
  double momentum = 0;  // sgd only
  bool nesterov = false;
  double weight_decay = 0;
  double clip_norm = 0;  // of all gradients together, after they are averaged; 0: no limit
  std::string schedule = "constant";
  int64_t warmup_steps = 0;
  int64_t step_size = 0;         // steps between decays of the step schedule; 0: a third of all
  int64_t accumulate_steps = 1;  // batches whose gradients are added up for one step
  int64_t seed = 0;
  // Of the model's parameters: fp32, bf16 or fp16. Sums, losses and what is saved are float32.
  std::string precision = "fp32";
  // What gradients become: ranks: the mean of the ranks' means; samples: the mean over all examples
  // of the step, however they are spread over ranks and batches.
  std::string average = "ranks";
  // A gradient that is NaN or infinite: stop ends the run, skip leaves the step out on all ranks,
  // ignore doesn't look. (fp16 always skips, by its loss scaler.)
  std::string on_nonfinite = "ignore";

  // Where, and how the ranks work together.
  std::string backend = "auto";
  std::string interface;  // of the network, to this rank; "": chosen
  ops::Device device = ops::Device::Cpu();
  int64_t threads = 1;  // of a rank
  int64_t bucket_bytes = 25 << 20;
  std::string hook = "none";  // ddp/replicated/communication_hooks.h
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool sync_batch_norm = false;
  bool overlap_optimizer = false;  // a step for each bucket as soon as it is averaged
  ddp::Duration timeout = ddp::kDefaultTimeout;
  ddp::Duration heartbeat_timeout = ddp::kDefaultHeartbeatTimeout;
  // Where ranks write what their collectives did when one fails; "": nowhere.
  std::string flight_record_dir;

  // What is kept, to go on from. Rank 0 has the directory; "": nothing is kept.
  std::string checkpoint_dir;
  int64_t checkpoint_every = 500;  // steps; 0: at the end only
  int64_t keep = 2;                // checkpoints, the newest
  std::string resume = "auto";     // auto, never or must: ddp/checkpoint/checkpointer.h
  // What asks the run to save what it has and to end early, where there is a place to save it: this
  // signal, SIGTERM, and the end of the job, so long before it.
  int stop_signal = SIGUSR1;
  ddp::Duration stop_before_end = std::chrono::minutes(2);
  // Weights to begin with, as safetensors, where there is nothing to go on from; "": drawn.
  std::string init_from;

  // What is told. Rank 0 writes the files; "": none.
  int64_t log_every = 50;  // steps
  int64_t eval_every = 0;  // steps; 0: at the end only
  std::string summary_json;
  std::string losses;
  std::string save;  // the weights at the end, as safetensors
};

// What the model of these options is made of.
ModelOptions ModelOptionsOf(const TrainOptions& options);

ops::DType PrecisionOf(const TrainOptions& options);

// Throws std::invalid_argument for the first option that makes no sense: "--learning_rate=-1:
// expected ...".
void Validate(const TrainOptions& options);

const std::vector<std::string>& KnownOptimizers();
// The learning rate where nothing else is said: the model's own for its own optimizer, else what
// suits the optimizer with most models.
double DefaultLearningRate(const ModelInfo& model, const std::string& optimizer);

// The options that must be the same on all ranks, as flag and value, in a fixed order.
std::vector<std::pair<std::string, std::string>> SharedOptions(const TrainOptions& options);

}  // namespace launch
