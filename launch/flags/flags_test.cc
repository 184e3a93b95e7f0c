#include "launch/flags/flags.h"

#include <absl/flags/reflection.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "launch/flags/parser.h"

namespace launch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Environment Nothing() {
  return [](const std::string&) { return std::nullopt; };
}

// Flags keep their values between parses; each test starts from the defaults.
class Flags : public testing::Test {
 protected:
  CommandLine Parse(const std::vector<std::string>& arguments,
                    const Environment& environment = Nothing()) {
    return ParseCommandLine(arguments, environment);
  }

 private:
  absl::FlagSaver saver_;
};

TEST_F(Flags, DefaultsSuitTheModel) {
  const CommandLine mlp = Parse({});
  EXPECT_EQ(mlp.num_ranks, 2);
  EXPECT_EQ(mlp.train.model, "mlp");
  EXPECT_EQ(mlp.train.hidden, (std::vector<int64_t>{1024, 1024}));
  EXPECT_EQ(mlp.train.data.name, "digits");
  EXPECT_EQ(mlp.train.batch_size, 64);
  EXPECT_EQ(mlp.train.momentum, 0.9);
  EXPECT_EQ(mlp.train.timeout, std::chrono::minutes(10));

  const CommandLine linear = Parse({"--model=linear"});
  EXPECT_EQ(linear.train.data.name, "synthetic");
  EXPECT_EQ(linear.train.batch_size, 10);
  EXPECT_EQ(linear.train.learning_rate, 0.01);
  EXPECT_EQ(linear.train.momentum, 0);
}

TEST_F(Flags, GptHasItsOwnOptimizerAndTheDatasVocabulary) {
  const TrainOptions text = Parse({"--model=gpt", "--data=text:f"}).train;
  EXPECT_EQ(text.optimizer, "adamw");
  EXPECT_EQ(text.clip_norm, 1);
  EXPECT_EQ(text.schedule, "constant");
  EXPECT_EQ(text.gpt.vocab, 256);
  EXPECT_EQ(text.momentum, 0);
  EXPECT_EQ(Parse({"--model=gpt", "--data=tokens:f"}).train.gpt.vocab, 50257);
}

TEST_F(Flags, WhatWasBegunAnewIsGoneOnWithAfterARestart) {
  const auto resume = [](const std::string& restarts) {
    return ParseCommandLine({"--resume=never"},
                            [&](const std::string& name) {
                              return name == "DDP_RESTART_COUNT" ? std::optional(restarts)
                                                                 : std::nullopt;
                            })
        .train.resume;
  };
  EXPECT_EQ(resume("0"), "never");
  EXPECT_EQ(resume("2"), "auto");
}

TEST_F(Flags, ConvNetsFollowOneCycle) {
  EXPECT_EQ(Parse({"--model=convnet"}).train.schedule, "one-cycle");
  EXPECT_EQ(Parse({"--model=convnet", "--schedule=constant"}).train.schedule, "constant");
}

TEST_F(Flags, AdamHasItsOwnLearningRateAndNoMomentum) {
  const TrainOptions options = Parse({"--optimizer=adam"}).train;
  EXPECT_EQ(options.learning_rate, 0.001);
  EXPECT_EQ(options.momentum, 0);
}

TEST_F(Flags, EveryFlagArrives) {
  const CommandLine parsed = Parse({"--nproc_per_node=3",
                                    "--launcher=slurm",
                                    "--expect_world=3",
                                    "--model=mlp",
                                    "--hidden=64,32",
                                    "--data=synthetic",
                                    "--batch_size=7",
                                    "--epochs=4",
                                    "--max_steps=100",
                                    "--optimizer=sgd",
                                    "--learning_rate=0.5",
                                    "--momentum=0.25",
                                    "--weight_decay=0.125",
                                    "--accumulate_steps=2",
                                    "--seed=9",
                                    "--backend=gloo",
                                    "--device=cpu",
                                    "--threads=2",
                                    "--bucket_bytes=500",
                                    "--timeout=90s",
                                    "--heartbeat_timeout=20s",
                                    "--flight_record_dir=/records",
                                    "--checkpoint_dir=/checkpoints",
                                    "--checkpoint_every=33",
                                    "--keep=4",
                                    "--resume=must",
                                    "--init_from=/i",
                                    "--log_every=11",
                                    "--eval_every=22",
                                    "--summary_json=/s.json",
                                    "--losses=/l.txt",
                                    "--interface=eth0",
                                    "--layers=3",
                                    "--width=48",
                                    "--heads=6",
                                    "--context=9",
                                    "--vocab=77",
                                    "--nesterov",
                                    "--clip_norm=2",
                                    "--schedule=cosine",
                                    "--warmup_steps=5",
                                    "--step_size=8",
                                    "--precision=bf16",
                                    "--average=samples",
                                    "--on_nonfinite=stop",
                                    "--hook=fp16+topk:0.5",
                                    "--find_unused_parameters",
                                    "--static_graph",
                                    "--save=/w"});
  EXPECT_EQ(parsed.num_ranks, 3);
  EXPECT_EQ(parsed.launcher.launcher, Launcher::kSlurm);
  EXPECT_EQ(parsed.launcher.expected_world_size, 3);
  const TrainOptions& train = parsed.train;
  EXPECT_EQ(train.hidden, (std::vector<int64_t>{64, 32}));
  EXPECT_EQ(train.data.ToString(), "synthetic");
  EXPECT_EQ(train.batch_size, 7);
  EXPECT_EQ(train.epochs, 4);
  EXPECT_EQ(train.max_steps, 100);
  EXPECT_EQ(train.learning_rate, 0.5);
  EXPECT_EQ(train.momentum, 0.25);
  EXPECT_EQ(train.weight_decay, 0.125);
  EXPECT_EQ(train.accumulate_steps, 2);
  EXPECT_EQ(train.seed, 9);
  EXPECT_EQ(train.interface, "eth0");
  EXPECT_EQ(train.threads, 2);
  EXPECT_EQ(train.bucket_bytes, 500);
  EXPECT_EQ(train.timeout, std::chrono::seconds(90));
  EXPECT_EQ(train.heartbeat_timeout, std::chrono::seconds(20));
  EXPECT_EQ(train.flight_record_dir, "/records");
  EXPECT_EQ(train.checkpoint_dir, "/checkpoints");
  EXPECT_EQ(train.checkpoint_every, 33);
  EXPECT_EQ(train.keep, 4);
  EXPECT_EQ(train.resume, "must");
  EXPECT_EQ(train.init_from, "/i");
  EXPECT_EQ(train.log_every, 11);
  EXPECT_EQ(train.eval_every, 22);
  EXPECT_EQ(train.summary_json, "/s.json");
  EXPECT_EQ(train.losses, "/l.txt");
  EXPECT_EQ(train.gpt.layers, 3);
  EXPECT_EQ(train.gpt.width, 48);
  EXPECT_EQ(train.gpt.heads, 6);
  EXPECT_EQ(train.gpt.context, 9);
  EXPECT_EQ(train.gpt.vocab, 77);
  EXPECT_TRUE(train.nesterov);
  EXPECT_EQ(train.clip_norm, 2);
  EXPECT_EQ(train.schedule, "cosine");
  EXPECT_EQ(train.warmup_steps, 5);
  EXPECT_EQ(train.step_size, 8);
  EXPECT_EQ(train.precision, "bf16");
  EXPECT_EQ(train.average, "samples");
  EXPECT_EQ(train.on_nonfinite, "stop");
  EXPECT_EQ(train.hook, "fp16+topk:0.5");
  EXPECT_TRUE(train.find_unused_parameters);
  EXPECT_TRUE(train.static_graph);
  EXPECT_EQ(train.save, "/w");
}

TEST_F(Flags, ReplicationMayBeSynchronizedAndOverlapped) {
  const TrainOptions plain = Parse({"--model=resnet"}).train;
  EXPECT_FALSE(plain.sync_batch_norm || plain.overlap_optimizer);
  const TrainOptions options =
      Parse({"--model=resnet", "--sync_batch_norm", "--overlap_optimizer"}).train;
  EXPECT_TRUE(options.sync_batch_norm && options.overlap_optimizer);
}

TEST_F(Flags, InFloat16StepsAreSkippedUnlessToldOtherwise) {
  EXPECT_EQ(Parse({"--precision=bf16"}).train.on_nonfinite, "ignore");
  EXPECT_EQ(Parse({"--precision=fp16"}).train.on_nonfinite, "skip");
  EXPECT_THAT(
      [&] {
        Parse({"--precision=fp16", "--on_nonfinite=stop"});
      },
      ThrowsMessage<std::invalid_argument>(
          HasSubstr("--on_nonfinite=stop doesn't go with --precision=fp16")));
}

TEST_F(Flags, ValuesMayFollowABlank) {
  EXPECT_EQ(Parse({"--batch_size", "7", "-epochs", "4"}).train.batch_size, 7);
}

TEST_F(Flags, StepsAloneLimitTheRun) {
  const TrainOptions options = Parse({"--max_steps=5"}).train;
  EXPECT_EQ(options.epochs, 0);
  EXPECT_EQ(options.max_steps, 5);
}

TEST_F(Flags, PathsStartWhereTheUserTyped) {
  const Environment under_bazel = [](const std::string& name) -> std::optional<std::string> {
    if (name == "BUILD_WORKING_DIRECTORY") return "/home/ada";
    return std::nullopt;
  };
  const TrainOptions options =
      Parse({"--data=mnist:data/mnist", "--summary_json=../s.json", "--losses=/tmp/l"}, under_bazel)
          .train;
  EXPECT_EQ(options.data.path, "/home/ada/data/mnist");
  EXPECT_EQ(options.summary_json, "/home/s.json");
  EXPECT_EQ(options.losses, "/tmp/l");
  EXPECT_EQ(Parse({"--data=mnist:data"}).train.data.path, "data");
}

struct BadCase {
  std::vector<std::string> arguments;
  std::string message;
};

class BadFlags : public testing::TestWithParam<BadCase> {
  absl::FlagSaver saver_;
};

TEST_P(BadFlags, AreNamed) {
  EXPECT_THAT([] { ParseCommandLine(GetParam().arguments, Nothing()); },
              ThrowsMessage<std::invalid_argument>(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadFlags,
    testing::Values(
        BadCase{{"--bach_size=3"},
                "unknown flag '--bach_size'; did you mean '--batch_size'? Known: --model, "},
        // Abseil defines flags of its own, which aren't the trainer's.
        BadCase{{"--flagfile=x"}, "unknown flag '--flagfile'"},
        BadCase{{"train"}, "'train' is not a flag"}, BadCase{{"--"}, "unknown flag '--'"},
        BadCase{{"--epochs"}, "--epochs needs a value"},
        BadCase{{"--nesterov=perhaps"}, "--nesterov=perhaps: expected true or false"},
        BadCase{{"--nesterov=true", "--optimizer=adam"}, "--nesterov=true: expected sgd with"},
        BadCase{{"--model=gpt", "--heads=5"}, "--heads=5: expected a number that divides"},
        BadCase{{"--clip_norm=-1"}, "--clip_norm=-1: expected a finite number, at least 0"},
        BadCase{{"--epochs="}, "--epochs=: expected a whole number"},
        BadCase{{"--epochs=few"}, "--epochs=few: expected a whole number"},
        BadCase{{"--epochs=1.5"}, "--epochs=1.5: expected a whole number"},
        BadCase{{"--learning_rate=fast"}, "--learning_rate=fast: expected a number"},
        BadCase{{"--learning_rate=-1"}, "--learning_rate=-1: expected a finite number"},
        BadCase{{"--learning_rate=nan"}, "--learning_rate=nan: expected a finite number"},
        BadCase{{"--timeout=60"}, "--timeout=60: expected a duration, such as 90s or 10m"},
        BadCase{{"--timeout=-1s"}, "--timeout=-1s: expected a duration above 0"},
        BadCase{{"--nproc_per_node=0"}, "--nproc_per_node=0: expected a whole number from 1"},
        BadCase{{"--max_restarts=-1"}, "--max_restarts=-1: expected a whole number from 0"},
        BadCase{{"--nproc_per_node=-2"}, "--nproc_per_node=-2: expected a whole number from 1"},
        BadCase{{"--launcher=slrum"}, "--launcher=slrum: unknown launcher 'slrum'; did you mean"},
        BadCase{{"--expect_world=-1"}, "--expect_world=-1: expected a number of ranks"},
        BadCase{{"--model=cnn"}, "--model=cnn: unknown model 'cnn'; known: linear, mlp, convnet, "},
        BadCase{{"--hidden=64,,32"}, "--hidden=64,,32: expected whole numbers"},
        BadCase{{"--hidden="}, "--hidden=: expected whole numbers"},
        BadCase{{"--data=digit"}, "--data=digit: unknown data 'digit'; did you mean 'digits'?"},
        BadCase{{"--model=linear", "--data=mnist:d"}, "model linear can't learn from mnist"},
        BadCase{{"--optimizer=sdg"}, "unknown optimizer 'sdg'; did you mean 'sgd'?"},
        BadCase{{"--hook=topk:2"}, "--hook=topk:2: "},
        BadCase{{"--model=gpt", "--overlap_optimizer"},
                "--overlap_optimizer doesn't go with --clip_norm=1"},
        BadCase{{"--device=gpu"}, "--device=gpu: "}));

TEST(Help, ExplainsEveryFlagOnce) {
  EXPECT_TRUE(AsksForHelp({"--model=mlp", "--help"}));
  EXPECT_FALSE(AsksForHelp({"--model=mlp"}));
  const std::string help = HelpText();
  EXPECT_THAT(help, HasSubstr("\nTraining\n"));
  EXPECT_THAT(help, HasSubstr("[synthetic for linear/gpt, digits for mlp/convnet/resnet]"));
  int num_flags = 0;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    const std::string file(flag->Filename());
    if (!file.ends_with("launch/flags/flags.cc") && !file.ends_with("launch/flags/launcher.cc")) {
      continue;
    }
    ++num_flags;
    const std::string entry = "\n  --" + std::string(name) + " ";
    EXPECT_NE(help.find(entry), std::string::npos) << name << " is in no group";
    EXPECT_EQ(help.find(entry), help.rfind(entry)) << name << " is explained twice";
  }
  EXPECT_EQ(num_flags, 54);
}

}  // namespace
}  // namespace launch
