#include "launch/trainer/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <stdexcept>

namespace launch {
namespace {

struct BadCase {
  std::string name;
  std::function<void(TrainOptions&)> change;
  std::string message;
};

class BadOptions : public testing::TestWithParam<BadCase> {};

TEST_P(BadOptions, AreNamed) {
  TrainOptions options;
  GetParam().change(options);
  EXPECT_THAT([&] { Validate(options); }, testing::ThrowsMessage<std::invalid_argument>(
                                              testing::HasSubstr(GetParam().message)));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

INSTANTIATE_TEST_SUITE_P(
    All, BadOptions,
    testing::Values(
        BadCase{"Model", [](auto& o) { o.model = "mpl"; }, "--model=mpl: unknown model 'mpl'"},
        BadCase{"Data",
                [](auto& o) {
                  o.data = {"imagenet", ""};
                },
                "--data=imagenet: unknown data"},
        BadCase{"ModelAndData", [](auto& o) { o.model = "linear"; },
                "--data=digits: model linear can't learn from digits; it takes: synthetic"},
        BadCase{"Hidden",
                [](auto& o) {
                  o.hidden = {8, 0};
                },
                "--hidden=0: expected"},
        BadCase{"BatchSize", [](auto& o) { o.batch_size = 0; },
                "--batch_size=0: expected a whole number, at least 1"},
        BadCase{"NoLimit", [](auto& o) { o.epochs = 0; }, "--epochs=0: expected a limit"},
        BadCase{"Epochs", [](auto& o) { o.epochs = -1; }, "--epochs=-1: expected"},
        BadCase{"MaxSteps", [](auto& o) { o.max_steps = -5; }, "--max_steps=-5: expected"},
        BadCase{"Optimizer", [](auto& o) { o.optimizer = "sdg"; },
                "unknown optimizer 'sdg'; did you mean 'sgd'? Known: adam, adamw, lion, sgd"},
        BadCase{"NegativeRate", [](auto& o) { o.learning_rate = -0.1; },
                "--learning_rate=-0.1: expected a finite number, at least 0"},
        BadCase{"NanRate", [](auto& o) { o.learning_rate = kNan; },
                "--learning_rate=nan: expected"},
        BadCase{"Momentum", [](auto& o) { o.momentum = -1; }, "--momentum=-1: expected"},
        BadCase{"AdamMomentum",
                [](auto& o) {
                  o.optimizer = "adam";
                  o.momentum = 0.9;
                },
                "--momentum=0.9: expected 0, as adam has betas instead"},
        BadCase{"Nesterov", [](auto& o) { o.nesterov = true; },
                "--nesterov=true: expected sgd with"},
        BadCase{"Clip", [](auto& o) { o.clip_norm = -1; }, "--clip_norm=-1: expected"},
        BadCase{"Schedule", [](auto& o) { o.schedule = "cosinus"; }, "--schedule=cosinus: "},
        BadCase{"Warmup", [](auto& o) { o.warmup_steps = -1; }, "--warmup_steps=-1: expected"},
        BadCase{"StepSize", [](auto& o) { o.step_size = -1; }, "--step_size=-1: expected"},
        BadCase{"Heads",
                [](auto& o) {
                  o.model = "gpt";
                  o.data = {"synthetic", ""};
                  o.gpt.heads = 3;
                },
                "--heads=3: expected a number that divides --width=256"},
        BadCase{"Vocab",
                [](auto& o) {
                  o.model = "gpt";
                  o.data = {"text", "file"};
                  o.gpt.vocab = 100;
                },
                "--vocab=100: expected a whole number, at least 256"},
        BadCase{"GptAndDigits", [](auto& o) { o.model = "gpt"; },
                "it takes: synthetic, text:FILE, tokens:GLOB"},
        BadCase{"Decay", [](auto& o) { o.weight_decay = kNan; }, "--weight_decay=nan: expected"},
        BadCase{"Accumulate", [](auto& o) { o.accumulate_steps = 0; }, "--accumulate_steps=0"},
        BadCase{"Seed", [](auto& o) { o.seed = -1; }, "--seed=-1"},
        BadCase{"Device", [](auto& o) { o.device = ops::Device::Cuda(7); }, "--device=cuda:7: "},
        BadCase{"Threads", [](auto& o) { o.threads = 0; }, "--threads=0: expected"},
        BadCase{"Bucket", [](auto& o) { o.bucket_bytes = 0; }, "--bucket_bytes=0: expected"},
        BadCase{"Timeout", [](auto& o) { o.timeout = {}; }, "--timeout=0s: expected a duration"},
        BadCase{"Precision", [](auto& o) { o.precision = "fp8"; },
                "--precision=fp8: expected one of fp32, bf16, fp16"},
        BadCase{"Average", [](auto& o) { o.average = "tokens"; },
                "--average=tokens: expected one of ranks, samples"},
        BadCase{"OnNonfinite", [](auto& o) { o.on_nonfinite = "go"; },
                "--on_nonfinite=go: expected one of stop, skip, ignore"},
        BadCase{"Hook", [](auto& o) { o.hook = "zip"; },
                "--hook=zip: no communication hook is called 'zip'"},
        BadCase{"HookNumber", [](auto& o) { o.hook = "local:0"; }, "--hook=local:0: "},
        BadCase{"IgnoreInFp16", [](auto& o) { o.precision = "fp16"; },
                "--on_nonfinite=ignore doesn't go with --precision=fp16"},
        BadCase{"LocalInFp16",
                [](auto& o) {
                  o.precision = "fp16";
                  o.on_nonfinite = "skip";
                  o.hook = "local:8";
                },
                "--hook=local:8 doesn't go with --precision=fp16"},
        BadCase{"LocalBySamples",
                [](auto& o) {
                  o.hook = "local+bf16";
                  o.average = "samples";
                },
                "--hook=local+bf16 doesn't go with --average=samples"},
        BadCase{"SyncBatchNorm", [](auto& o) { o.sync_batch_norm = true; },
                "--sync_batch_norm=true: expected a model with batch norm, which mlp isn't"},
        BadCase{"OverlapAndClip",
                [](auto& o) {
                  o.overlap_optimizer = true;
                  o.clip_norm = 1;
                },
                "--overlap_optimizer doesn't go with --clip_norm=1"},
        BadCase{"OverlapAndFp16",
                [](auto& o) {
                  o.overlap_optimizer = true;
                  o.precision = "fp16";
                  o.on_nonfinite = "skip";
                },
                "--overlap_optimizer doesn't go with --precision=fp16"},
        BadCase{"OverlapAndSkip",
                [](auto& o) {
                  o.overlap_optimizer = true;
                  o.on_nonfinite = "skip";
                },
                "--overlap_optimizer doesn't go with --on_nonfinite=skip"},
        BadCase{"OverlapAndLocal",
                [](auto& o) {
                  o.overlap_optimizer = true;
                  o.hook = "local";
                },
                "--overlap_optimizer doesn't go with --hook=local"},
        BadCase{"OverlapAndUnused",
                [](auto& o) { o.overlap_optimizer = o.find_unused_parameters = true; },
                "--overlap_optimizer doesn't go with --find_unused_parameters"},
        BadCase{"OverlapAndStatic", [](auto& o) { o.overlap_optimizer = o.static_graph = true; },
                "--overlap_optimizer doesn't go with --static_graph"},
        BadCase{"CheckpointEvery", [](auto& o) { o.checkpoint_every = -1; },
                "--checkpoint_every=-1: expected"},
        BadCase{"Keep", [](auto& o) { o.keep = 0; }, "--keep=0: expected"},
        BadCase{"Resume", [](auto& o) { o.resume = "yes"; },
                "--resume=yes: expected one of auto, never, must"},
        BadCase{"ResumeFromNowhere", [](auto& o) { o.resume = "must"; },
                "--resume=must: expected a --checkpoint_dir"},
        BadCase{"LogEvery", [](auto& o) { o.log_every = 0; }, "--log_every=0: expected"},
        BadCase{"EvalEvery", [](auto& o) { o.eval_every = -1; }, "--eval_every=-1: expected"}),
    [](const auto& info) { return info.param.name; });

TEST(TrainOptions, LearningRatesSuitTheOptimizer) {
  const ModelInfo& gpt = FindModel("gpt");
  EXPECT_EQ(DefaultLearningRate(gpt, "adamw"), gpt.learning_rate);
  EXPECT_EQ(DefaultLearningRate(gpt, "lion"), 0.0001);
  EXPECT_EQ(DefaultLearningRate(FindModel("mlp"), "adam"), 0.001);
}

TEST(TrainOptions, DefaultsAreValid) { EXPECT_NO_THROW(Validate(TrainOptions())); }

TEST(TrainOptions, SharedOptionsTellRunsApart) {
  TrainOptions one, other;
  EXPECT_EQ(SharedOptions(one), SharedOptions(other));
  other.threads = 2;
  other.data.path = "/elsewhere";
  EXPECT_EQ(SharedOptions(one), SharedOptions(other));
  other.learning_rate = 0.02;
  EXPECT_NE(SharedOptions(one), SharedOptions(other));
}

TEST(TrainOptions, WhatRanksDoTogetherIsShared) {
  const std::function<void(TrainOptions&)> changes[] = {
      [](TrainOptions& o) { o.precision = "bf16"; },
      [](TrainOptions& o) { o.average = "samples"; },
      [](TrainOptions& o) { o.on_nonfinite = "skip"; },
      [](TrainOptions& o) { o.hook = "fp16"; },
      [](TrainOptions& o) { o.find_unused_parameters = true; },
      [](TrainOptions& o) { o.static_graph = true; },
      [](TrainOptions& o) { o.overlap_optimizer = true; },
  };
  for (const auto& change : changes) {
    TrainOptions other;
    change(other);
    EXPECT_NO_THROW(Validate(other));
    EXPECT_NE(SharedOptions(TrainOptions()), SharedOptions(other));
  }
  TrainOptions resnet, synchronized;
  resnet.model = synchronized.model = "resnet";
  synchronized.sync_batch_norm = true;
  EXPECT_NO_THROW(Validate(synchronized));
  EXPECT_NE(SharedOptions(resnet), SharedOptions(synchronized));
}

}  // namespace
}  // namespace launch
