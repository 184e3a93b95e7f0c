// The trainer as its users meet it: whole processes, on small models.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "launch/testing/listener.h"
#include "launch/testing/ranks.h"
#include "launch/testing/subprocess.h"

namespace launch {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

using Arguments = std::vector<std::string>;

const Arguments kSmall = {"--model=mlp", "--hidden=16", "--data=digits"};

Arguments operator+(Arguments one, const Arguments& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

Arguments Command(const Arguments& flags) { return Arguments{"launch/train"} + flags; }

ProgramOutput Train(const Arguments& flags) { return RunProgram(Command(flags)); }

std::string TempFile(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The text of the losses of a run, which says every bit of them.
std::string LossesOf(const Arguments& flags) {
  static int run = 0;
  const std::string path = TempFile(fmt::format("losses{}", run++));
  const ProgramOutput output = Train(flags + Arguments{"--losses=" + path});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  return Read(path);
}

std::vector<double> Numbers(const std::string& text) {
  std::vector<double> numbers;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    numbers.push_back(std::strtod(line.c_str(), nullptr));
  }
  return numbers;
}

void ExpectNear(const std::string& one, const std::string& other) {
  const std::vector<double> a = Numbers(one), b = Numbers(other);
  ASSERT_FALSE(a.empty());
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5) << "step " << i + 1;
}

TEST(Train, LearnsAndSumsUp) {
  const std::string path = TempFile("summary.json");
  const ProgramOutput output =
      Train(kSmall + Arguments{"--epochs=1", "--log_every=40", "--eval_every=100",
                               "--summary_json=" + path});
  ASSERT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(output.err, "");
  EXPECT_THAT(output.out, ContainsRegex("step 40/157  epoch 1  loss [0-9.]+  grad_norm [0-9.e-]+  "
                                        "lr 0.05  [0-9]+ samples/s  data [0-9]+%  comm [0-9]+%  "
                                        "mem [0-9]+ MB  ETA "));
  EXPECT_THAT(output.out, HasSubstr("step 100/157  test loss "));
  EXPECT_THAT(output.out, HasSubstr("\ndone: 157 steps in "));

  const auto summary = nlohmann::json::parse(Read(path));
  EXPECT_EQ(summary["model"], "mlp");
  EXPECT_EQ(summary["parameters"], 784 * 16 + 16 + 16 * 10 + 10);
  EXPECT_EQ(summary["world_size"], 2);
  EXPECT_EQ(summary["backend"], "auto");
  EXPECT_EQ(summary["steps"], 157);
  EXPECT_NEAR(summary["loss_first"], std::log(10), 0.3);
  EXPECT_LT(summary["loss_last"], 0.8);
  EXPECT_LT(summary["eval_loss"], 0.6);
  EXPECT_GT(summary["eval_accuracy"], 0.8);
  EXPECT_GT(summary["samples_per_second"], 0);
  EXPECT_GT(summary["step_seconds_median"], 0);
  EXPECT_GT(summary["time_to_first_loss_seconds"], 0);
  EXPECT_LT(summary["time_to_first_loss_seconds"], summary["total_seconds"]);
  EXPECT_EQ(summary["peak_rss_bytes"].size(), 2u);
  EXPECT_GT(summary["peak_rss_bytes"][1], 1'000'000);
}

TEST(Train, SameSeedSameBits) {
  const Arguments flags = kSmall + Arguments{"--max_steps=30", "--seed=3"};
  const std::string losses = LossesOf(flags);
  EXPECT_EQ(Numbers(losses).size(), 30u);
  EXPECT_EQ(LossesOf(flags), losses);
  EXPECT_EQ(LossesOf(flags + Arguments{"--threads=2"}), losses);
  EXPECT_EQ(LossesOf(flags + Arguments{"--bucket_bytes=10000"}), losses);
  EXPECT_NE(LossesOf(kSmall + Arguments{"--max_steps=30", "--seed=4"}), losses);
}

TEST(Train, RanksShareTheGlobalBatch) {
  const Arguments flags = kSmall + Arguments{"--max_steps=20"};
  const std::string one = LossesOf(flags + Arguments{"--nproc_per_node=1", "--batch_size=32"});
  ExpectNear(LossesOf(flags + Arguments{"--nproc_per_node=2", "--batch_size=16"}), one);
  ExpectNear(LossesOf(flags + Arguments{"--nproc_per_node=4", "--batch_size=8"}), one);
}

// The norm is that of the averaged gradients: of a rank's own, each would clip by another factor.
TEST(Train, RanksClipAlike) {
  const Arguments flags = kSmall + Arguments{"--max_steps=10", "--clip_norm=0.1"};
  const std::string one = LossesOf(flags + Arguments{"--nproc_per_node=1", "--batch_size=32"});
  ExpectNear(LossesOf(flags + Arguments{"--nproc_per_node=2", "--batch_size=16"}), one);
  ExpectNear(LossesOf(flags + Arguments{"--nproc_per_node=4", "--batch_size=8"}), one);
  EXPECT_NE(LossesOf(kSmall + Arguments{"--max_steps=10", "--nproc_per_node=1", "--batch_size=32"}),
            one);
}

TEST(Train, AccumulatedBatchesMakeOneStep) {
  const Arguments flags = kSmall + Arguments{"--max_steps=20", "--nproc_per_node=1"};
  ExpectNear(LossesOf(flags + Arguments{"--batch_size=8", "--accumulate_steps=4"}),
             LossesOf(flags + Arguments{"--batch_size=32"}));
  ExpectNear(
      LossesOf(kSmall + Arguments{"--max_steps=20", "--batch_size=8", "--accumulate_steps=2"}),
      LossesOf(flags + Arguments{"--batch_size=32"}));
}

TEST(Train, EveryModelAndOptimizer) {
  for (const std::string model : {"linear", "mlp"}) {
    for (const std::string optimizer : {"sgd", "adam", "adamw", "lion"}) {
      const std::vector<double> losses =
          Numbers(LossesOf({"--model=" + model, "--hidden=8", "--data=synthetic", "--max_steps=200",
                            "--optimizer=" + optimizer, "--learning_rate=0.01"}));
      double first = 0, last = 0;
      for (size_t i = 0; i < 20; ++i) first += losses[i], last += losses[losses.size() - 1 - i];
      EXPECT_LT(last, first) << model << " with " << optimizer;
    }
  }
}

TEST(Train, ConvolutionalModelsKeepTheirBits) {
  for (const std::string model : {"convnet", "resnet"}) {
    const Arguments flags = {"--model=" + model, "--batch_size=8", "--max_steps=4"};
    const std::string losses = LossesOf(flags);
    EXPECT_EQ(Numbers(losses).size(), 4u);
    EXPECT_EQ(LossesOf(flags + Arguments{"--threads=2"}), losses) << model;
  }
}

TEST(Train, HalfTheBytesOrHalfTheBitsLearnAsWell) {
  const Arguments flags = kSmall + Arguments{"--epochs=1"};
  const std::string weights = TempFile("bf16.safetensors");
  const auto run = [&](const Arguments& more) {
    const std::string path = TempFile("half.json");
    const ProgramOutput output = Train(flags + Arguments{"--summary_json=" + path} + more);
    EXPECT_EQ(output.exit_code, 0) << output.err;
    return nlohmann::json::parse(Read(path));
  };
  const double accuracy = run({})["eval_accuracy"];
  EXPECT_GT(accuracy, 0.8);
  EXPECT_NEAR(run({"--precision=bf16", "--save=" + weights})["eval_accuracy"], accuracy, 0.02);
  EXPECT_NEAR(run({"--hook=fp16"})["eval_accuracy"], accuracy, 0.02);
  const auto in_fp16 = run({"--precision=fp16"});
  EXPECT_NEAR(in_fp16["eval_accuracy"], accuracy, 0.02);
  EXPECT_LT(in_fp16["skipped_steps"], 20);

  const std::string saved = Read(weights);
  EXPECT_THAT(saved.substr(0, 600), HasSubstr("F32"));
  EXPECT_THAT(saved.substr(0, 600), testing::Not(HasSubstr("BF16")));
}

TEST(Train, OverlappedStepsHaveTheSameBits) {
  const Arguments flags = kSmall + Arguments{"--max_steps=20", "--bucket_bytes=1000"};
  for (const std::string precision : {"fp32", "bf16"}) {
    const Arguments same = flags + Arguments{"--precision=" + precision};
    EXPECT_EQ(LossesOf(same + Arguments{"--overlap_optimizer"}), LossesOf(same)) << precision;
  }
}

TEST(Train, GradientsThatAreNotFiniteStopTheRunOrAreSkipped) {
  const Arguments flags = kSmall + Arguments{"--max_steps=5", "--learning_rate=1e30"};
  const ProgramOutput stopped = Train(flags + Arguments{"--on_nonfinite=stop"});
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_THAT(stopped.last_error(),
              AllOf(HasSubstr("2.weight"), HasSubstr("rank"), HasSubstr("finite")));
  const ProgramOutput skipped = Train(flags + Arguments{"--on_nonfinite=skip"});
  EXPECT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_THAT(skipped.out, ContainsRegex("[0-9] steps? left out, as gradients were not finite"));
}

// Text in which each letter says what comes next.
std::string AlphabetFile() {
  const std::string path = TempFile("alphabet.txt");
  std::ofstream file(path);
  for (int i = 0; i < 400; ++i) file << "abcdefghijklmnopqrstuvwxyz\n";
  return path;
}

const Arguments kSmallGpt = {"--model=gpt",  "--layers=1", "--width=32",
                             "--context=16", "--heads=2",  "--learning_rate=0.01"};

TEST(Train, GptLearnsATextAndWritesOne) {
  const std::string data = "--data=text:" + AlphabetFile();
  const std::string summary = TempFile("gpt.json"), weights = TempFile("gpt.safetensors");
  const ProgramOutput output =
      Train(kSmallGpt + Arguments{data, "--max_steps=80", "--summary_json=" + summary,
                                  "--save=" + weights, "--schedule=cosine"});
  ASSERT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, ContainsRegex(" [0-9]+ tokens/s "));
  EXPECT_THAT(output.out, HasSubstr("sample:abcdefghij"));
  const auto json = nlohmann::json::parse(Read(summary));
  EXPECT_NEAR(json["loss_first"], std::log(256), 0.3);
  EXPECT_LT(json["loss_last"], 0.5 * json["loss_first"].get<double>());
  EXPECT_NEAR(json["eval_perplexity"], std::exp(json["eval_loss"].get<double>()), 1e-6);
  EXPECT_GT(json["tokens_per_second"], 0);

  const Arguments sample = {"launch/sample", "--checkpoint=" + weights, "--prompt=def",
                            "--max_tokens=8"};
  const ProgramOutput text = RunProgram(sample);
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_EQ(text.out, "defghijklmn\n");
  EXPECT_EQ(RunProgram(sample).out, text.out);
}

TEST(Train, GptKeepsItsBitsOnTwoThreads) {
  const Arguments flags =
      kSmallGpt + Arguments{"--data=synthetic", "--max_steps=10", "--nproc_per_node=1"};
  EXPECT_EQ(LossesOf(flags + Arguments{"--threads=2"}), LossesOf(flags));
}

TEST(Train, TokenShardsThatDoNotFitAreNamed) {
  const std::string path = TempFile("short.bin");
  std::ofstream(path) << "12345678";  // four tokens
  const ProgramOutput output =
      Train({"--model=gpt", "--data=tokens:" + path, "--nproc_per_node=1"});
  EXPECT_NE(output.exit_code, 0);
  EXPECT_THAT(output.err, AllOf(HasSubstr(path), HasSubstr("has 4 tokens"), HasSubstr("need 258"),
                                HasSubstr("up to 1 would do")));
}

TEST(Sample, SaysWhatIsWrong) {
  const ProgramOutput nothing = RunProgram({"launch/sample"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("--checkpoint=FILE is needed"));
  const ProgramOutput missing = RunProgram({"launch/sample", "--checkpoint=/nowhere/w"});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("/nowhere/w"));
  EXPECT_EQ(RunProgram({"launch/sample", "--help"}).exit_code, 0);
}

TEST(Train, OnATerminalThereIsABar) {
  const ProgramOutput output =
      RunProgram({"script", "-qec", "launch/train --model=linear --max_steps=100", "/dev/null"});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_THAT(output.out, ContainsRegex("\r\x1b\\[K\\[=+\\] 100/100  loss [0-9.]+ "));
  EXPECT_THAT(output.out, testing::Not(HasSubstr("grad_norm")));
  EXPECT_THAT(output.out, HasSubstr("\r\x1b[Kdone: 100 steps"));
}

TEST(Train, RanksOfAnotherLauncher) {
  const Arguments flags = kSmall + Arguments{"--max_steps=10"};
  const std::string path = TempFile("env_losses");
  std::map<std::string, std::string> environment = {{"WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "127.0.0.1"},
                                                    {"MASTER_PORT", std::to_string(FreePort())}};
  environment["RANK"] = "1";
  Subprocess one(Command(flags + Arguments{"--losses=" + path}), environment);
  environment["RANK"] = "0";
  Subprocess zero(Command(flags + Arguments{"--losses=" + path}), environment);
  EXPECT_EQ(zero.Wait().exit_code, 0);
  EXPECT_EQ(one.Wait().exit_code, 0);
  EXPECT_EQ(Read(path), LossesOf(flags));
}

TEST(Train, RanksStartedUnlikeNameTheFlag) {
  std::map<std::string, std::string> environment = {{"WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "127.0.0.1"},
                                                    {"MASTER_PORT", std::to_string(FreePort())}};
  environment["RANK"] = "1";
  Subprocess one(Command(kSmall + Arguments{"--learning_rate=0.25"}), environment);
  environment["RANK"] = "0";
  Subprocess zero(Command(kSmall), environment);
  for (const ProgramOutput& output : {zero.Wait(), one.Wait()}) {
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_THAT(output.last_error(),
                HasSubstr("rank 1 was started with --learning_rate=0.25, but rank 0 with "
                          "--learning_rate=0.05"));
  }
}

TEST(Train, WithoutAnAgentPeersTellTheReasonToo) {
  std::map<std::string, std::string> environment = {{"WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "127.0.0.1"},
                                                    {"MASTER_PORT", std::to_string(FreePort())}};
  const Arguments flags = kSmall + Arguments{"--summary_json=/no/such/folder/s.json"};
  environment["RANK"] = "1";
  Subprocess one(Command(flags), environment);
  environment["RANK"] = "0";
  Subprocess zero(Command(flags), environment);
  const ProgramOutput cause = zero.Wait(), consequence = one.Wait();
  EXPECT_EQ(cause.exit_code, 1);
  EXPECT_THAT(cause.last_error(), StartsWith("rank 0 failed: can't write /no/such/folder/s.json"));
  EXPECT_EQ(consequence.exit_code, 1);
  EXPECT_THAT(consequence.last_error(),
              AllOf(StartsWith("rank 1 failed: "),
                    HasSubstr("lost rank 0: can't write /no/such/folder/s.json")));
}

TEST(Train, APortInUseIsNamed) {
  const Listener listener;
  const ProgramOutput output =
      RunProgram(Command(kSmall), {{"RANK", "0"},
                                   {"WORLD_SIZE", "2"},
                                   {"MASTER_ADDR", "127.0.0.1"},
                                   {"MASTER_PORT", std::to_string(listener.port())}});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(),
              AllOf(StartsWith("rank 0 failed: "), HasSubstr(std::to_string(listener.port())),
                    HasSubstr("in use")));
}

// Starts a run that won't end by itself, and waits until its ranks are training.
std::unique_ptr<Subprocess> StartLongRun(int num_ranks) {
  auto run = std::make_unique<Subprocess>(Command(
      kSmall + Arguments{"--max_steps=1000000000", fmt::format("--nproc_per_node={}", num_ranks)}));
  run->WaitForLines(2);
  return run;
}

TEST(Train, ADeadRankEndsAll) {
  for (const int victim : {0, 1, 2}) {
    const auto run = StartLongRun(3);
    const std::vector<pid_t> pids = RanksOf(run->pid());
    ASSERT_EQ(pids.size(), 3u);
    kill(pids[victim], SIGKILL);
    const ProgramOutput output = run->Wait();
    EXPECT_EQ(output.exit_code, 137);
    EXPECT_EQ(output.err, fmt::format("rank {} failed: killed by signal 9 (Killed)\n", victim));
    for (const int pid : pids) EXPECT_EQ(kill(pid, 0), -1);
  }
}

// A rank dies in the midst of training; all start again from the last checkpoint, and come to the
// weights of a training that nobody disturbed.
TEST(Train, RanksStartAgainFromTheLastCheckpoint) {
  const Arguments flags = kSmall + Arguments{"--max_steps=60", "--checkpoint_every=10"};
  const std::string undisturbed = TempFile("undisturbed"), disturbed = TempFile("disturbed");
  ASSERT_EQ(Train(flags + Arguments{"--save=" + undisturbed,
                                    "--checkpoint_dir=" + TempFile("undisturbed.checkpoints")})
                .exit_code,
            0);
  Subprocess run(
      Command(flags + Arguments{"--save=" + disturbed, "--max_restarts=1", "--log_every=1",
                                "--checkpoint_dir=" + TempFile("disturbed.checkpoints")}));
  run.WaitForLines(15);
  kill(RanksOf(run.pid())[1], SIGKILL);
  const ProgramOutput output = run.Wait();
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.err, HasSubstr("rank 1 failed: killed by signal 9 (Killed); restart 1 of 1"));
  EXPECT_TRUE(Read(disturbed) == Read(undisturbed));
}

TEST(Train, CtrlCEndsAll) {
  const auto run = StartLongRun(2);
  const std::vector<pid_t> pids = RanksOf(run->pid());
  run->Signal(SIGINT);
  const ProgramOutput output = run->Wait();
  EXPECT_EQ(output.exit_code, 130);
  EXPECT_EQ(output.last_error(), "stopped by signal 2 (Interrupt)");
  for (const int pid : pids) EXPECT_EQ(kill(pid, 0), -1);
}

// Whatever a rank calculates when the signal comes goes on as if nothing had been.
TEST(Train, RanksWriteTheirFlightRecordsOnASignal) {
  Subprocess run(Command({"--max_steps=200", "--flight_record_dir=" + testing::TempDir()}));
  run.WaitForLines(2);
  for (int i = 0; i < 30; ++i) {
    run.Signal(SIGUSR2);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const ProgramOutput output = run.Wait();
  EXPECT_EQ(output.exit_code, 0);
  for (const int rank : {0, 1}) {
    const std::string path = TempFile(fmt::format("flight_record_world_rank{}.json", rank));
    EXPECT_THAT(output.err, HasSubstr(fmt::format("rank {}: flight record in {}", rank, path)));
    EXPECT_TRUE(std::ifstream(path).good());
  }
}

TEST(Train, NoRankOutlivesTheLauncher) {
  const auto run = StartLongRun(2);
  const std::vector<pid_t> pids = RanksOf(run->pid());
  run->Signal(SIGKILL);
  for (const int pid : pids) WaitForEnd(pid);
  EXPECT_EQ(run->Wait().exit_code, 137);
}

TEST(Train, HelpIsNoError) {
  const ProgramOutput output = Train({"--help"});
  EXPECT_EQ(output.exit_code, 0);
  EXPECT_EQ(output.err, "");
  EXPECT_THAT(output.out, HasSubstr("--learning_rate"));
}

struct BadCase {
  Arguments flags;
  int exit_code;
  std::string message;
};

class BadInput : public testing::TestWithParam<BadCase> {};

TEST_P(BadInput, IsToldPlainly) {
  const ProgramOutput output = Train(GetParam().flags);
  EXPECT_EQ(output.exit_code, GetParam().exit_code);
  EXPECT_THAT(output.last_error(), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadInput,
    testing::Values(
        BadCase{{"--bach_size=3"}, 2, "unknown flag '--bach_size'; did you mean '--batch_size'?"},
        BadCase{{"--nproc_per_node=0"}, 2, "--nproc_per_node=0: expected"},
        BadCase{{"--learning_rate=-1"}, 2, "--learning_rate=-1: expected"},
        BadCase{{"--model=linear", "--data=digits"}, 2, "model linear can't learn from digits"},
        BadCase{{"--batch_size=30000"},
                1,
                "--batch_size=30000 is larger than the data: digits has 20000 examples, 10000 for "
                "each of 2 ranks"},
        BadCase{{"--backend=smoke"}, 1, "unknown backend 'smoke'"},
        BadCase{{"--backend=nccl"}, 1, "'auto' would work"},
        BadCase{{"--data=mnist:/no/such/folder"}, 1, "/no/such/folder"},
        BadCase{{"--summary_json=/no/such/folder/s.json"},
                1,
                "rank 0 failed: can't write /no/such/folder/s.json: No such file or directory"}));

}  // namespace
}  // namespace launch
