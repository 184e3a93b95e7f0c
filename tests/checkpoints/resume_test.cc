// Runs that were interrupted and went on, against runs that weren't.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ddp/checkpoint/checkpoint.h"
#include "ddp/checkpoint/report.h"
#include "launch/testing/listener.h"
#include "tests/checkpoints/runs.h"

namespace launch {
namespace {

using testing::HasSubstr;

// Short runs; of these flags, in the middle of the first epoch, and with kGpt of later ones.
const Arguments kMlp = {"--model=mlp", "--hidden=16", "--data=digits", "--max_steps=30"};
const Arguments kGpt = {"--model=gpt",    "--layers=2",      "--width=16", "--heads=2",
                        "--context=8",    "--vocab=40",      "--epochs=4", "--batch_size=31",
                        "--max_steps=30", "--data=synthetic"};

constexpr int64_t kSteps = 30;
constexpr int64_t kInterrupted = 13;

Arguments Ranks(int num_ranks) { return {fmt::format("--nproc_per_node={}", num_ranks)}; }

Arguments KeptIn(const std::string& folder) {
  return {"--checkpoint_dir=" + folder, "--keep=100",
          fmt::format("--checkpoint_every={}", kInterrupted)};
}

// A run without interruption. Returns the folder with all its checkpoints.
std::string Straight(const std::string& name, const Arguments& flags) {
  const std::string folder = NewPath(name);
  const ProgramOutput output = Train(flags + KeptIn(folder));
  EXPECT_EQ(output.exit_code, 0) << output.err;
  return folder;
}

// The same run, which goes on from the straight one's checkpoint.
std::string Resumed(const std::string& name, const std::string& straight, const Arguments& flags) {
  const std::string folder = NewPath(name);
  CopyCheckpoint(straight, kInterrupted, folder);
  const std::string summary = NewPath("summary.json");
  const ProgramOutput output =
      Train(flags + KeptIn(folder) + Arguments{"--summary_json=" + summary});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr(fmt::format("goes on from {}/step-00000013: step 13", folder)));
  const auto json = nlohmann::json::parse(Read(summary));
  EXPECT_EQ(json["resumed_at_step"], kInterrupted);
  EXPECT_EQ(json["steps"], kSteps - kInterrupted);
  return folder;
}

ddp::Checkpoint Last(const std::string& folder) {
  return ddp::ReadCheckpoint(fmt::format("{}/step-{:08}", folder, kSteps));
}

struct Case {
  std::string name;
  Arguments flags;
  std::vector<int> nums_ranks = {1, 2};
};

class Resuming : public testing::TestWithParam<Case> {};

TEST_P(Resuming, GoesOnAsIfNothingHadBeen) {
  for (const int num_ranks : GetParam().nums_ranks) {
    const Arguments flags = GetParam().flags + Ranks(num_ranks);
    const std::string straight = Straight("straight", flags);
    const std::string resumed = Resumed("resumed", straight, flags);
    EXPECT_EQ(ddp::DescribeDifferences(Last(straight), Last(resumed)), "")
        << "on " << num_ranks << " ranks";
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Resuming,
    testing::Values(
        Case{"SgdWithMomentum", kMlp + Arguments{"--optimizer=sgd", "--momentum=0.9"}},
        Case{"AdamWWithSchedule",
             kGpt + Arguments{"--optimizer=adamw", "--schedule=cosine", "--warmup_steps=5"}},
        Case{"LionAndAccumulation", kMlp + Arguments{"--optimizer=lion", "--accumulate_steps=3"}},
        Case{"WeightsBySamples", kGpt + Arguments{"--average=samples", "--accumulate_steps=2"}},
        Case{"BFloat16", kMlp + Arguments{"--precision=bf16", "--optimizer=adam"}},
        Case{"Float16", kMlp + Arguments{"--precision=fp16", "--momentum=0.9"}},
        Case{"BatchNorm",
             {"--model=resnet", "--batch_size=2", "--max_steps=30", "--momentum=0.9"},
             {2}}),
    [](const auto& info) { return info.param.name; });

// The same command again, whenever it was killed: before the first checkpoint, between two, near
// the end.
TEST(Resuming, GoesOnAfterAKill) {
  const Arguments flags = kMlp + Ranks(2) + Arguments{"--momentum=0.9", "--log_every=1"};
  const std::string straight = Straight("straight", flags);
  for (const size_t num_lines : {4, 18, 30}) {
    const std::string folder = NewPath("killed");
    Subprocess run(Arguments{"launch/train"} + flags + KeptIn(folder));
    run.WaitForLines(num_lines);
    run.Signal(SIGKILL);
    run.Wait();
    const ProgramOutput output = Train(flags + KeptIn(folder));
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_EQ(ddp::DescribeDifferences(Last(straight), Last(folder)), "") << output.out;
  }
}

double LargestDifference(const ddp::Checkpoint& one, const ddp::Checkpoint& other) {
  double largest = 0;
  for (size_t i = 0; i < one.Group("model").size(); ++i) {
    const auto values = one.Group("model")[i].tensor.ToVector<double>();
    const auto others = other.Group("model")[i].tensor.ToVector<double>();
    for (size_t j = 0; j < values.size(); ++j) {
      largest = std::max(largest, std::abs(values[j] - others[j]));
    }
  }
  return largest;
}

// With as many examples in the global batch: the same steps, to rounding.
TEST(Resuming, GoesOnWithMoreOrFewerRanks) {
  const Arguments flags = kMlp + Arguments{"--momentum=0.9", "--epochs=1"};
  const Arguments one = flags + Ranks(1) + Arguments{"--batch_size=24"};
  const Arguments two = flags + Ranks(2) + Arguments{"--batch_size=12"};
  const std::string by_one = Straight("by_one", one), by_two = Straight("by_two", two);
  EXPECT_LT(LargestDifference(Last(by_one), Last(Resumed("one_two", by_one, two))), 1e-5);
  EXPECT_LT(LargestDifference(Last(by_one), Last(Resumed("two_one", by_two, one))), 1e-5);
}

// The planned steps, not the planned ones and those that were taken.
TEST(Resuming, ARunThatIsDoneHasNothingLeftToDo) {
  const Arguments flags = kMlp + Arguments{"--checkpoint_dir=" + NewPath("done")};
  ASSERT_EQ(Train(flags).exit_code, 0);
  const ProgramOutput again = Train(flags);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("step-00000030: step 30, epoch 1"));
  EXPECT_THAT(again.out, HasSubstr("done: 0 steps"));
}

TEST(Resuming, PlannedEpochsAreNotExceeded) {
  const Arguments flags = {"--model=mlp", "--hidden=16", "--batch_size=500",
                           "--checkpoint_dir=" + NewPath("epochs")};
  for (const auto& [epochs, steps] : {std::pair(1, 20), {1, 0}, {2, 20}, {2, 0}, {1, 0}}) {
    const ProgramOutput output = Train(flags + Arguments{fmt::format("--epochs={}", epochs)});
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_THAT(output.out, HasSubstr(fmt::format("\ndone: {} steps", steps)));
  }
}

TEST(Resuming, ALongerPlanIsFollowed) {
  const Arguments flags = {"--model=mlp", "--hidden=16", "--checkpoint_dir=" + NewPath("longer")};
  ASSERT_EQ(Train(flags + Arguments{"--max_steps=5"}).exit_code, 0);
  const ProgramOutput output = Train(flags + Arguments{"--max_steps=8"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("\nmax_steps was 5 before, now 8\n"));
  EXPECT_THAT(output.out, HasSubstr("\ndone: 3 steps"));
}

TEST(Resuming, AnotherModelIsRefusedByName) {
  const Arguments folder = {"--checkpoint_dir=" + NewPath("other")};
  ASSERT_EQ(Train(folder + kMlp).exit_code, 0);
  const ProgramOutput output =
      Train(folder + Arguments{"--model=mlp", "--hidden=17", "--max_steps=40"});
  EXPECT_EQ(output.exit_code, 1);
  EXPECT_THAT(output.last_error(), HasSubstr("its run was told --hidden=16, this one --hidden=17"));
}

TEST(Resuming, MustAndNeverMeanWhatTheySay) {
  const Arguments flags = kMlp + Arguments{"--checkpoint_dir=" + NewPath("strict")};
  const ProgramOutput nothing = Train(flags + Arguments{"--resume=must"});
  EXPECT_EQ(nothing.exit_code, 1);
  EXPECT_THAT(nothing.last_error(), HasSubstr("there is no checkpoint in "));
  ASSERT_EQ(Train(flags + Arguments{"--resume=never"}).exit_code, 0);
  const ProgramOutput again = Train(flags + Arguments{"--resume=never"});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_THAT(again.last_error(), HasSubstr("choose a directory without checkpoints"));
}

TEST(Resuming, ADamagedCheckpointIsPassedOver) {
  const std::string folder = Straight("damaged", kMlp);
  ASSERT_EQ(truncate((folder + "/step-00000030/model.safetensors").c_str(), 100), 0);
  const ProgramOutput output =
      Train(kMlp + Arguments{"--checkpoint_dir=" + folder, "--resume=must"});
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_THAT(output.out, HasSubstr("passed over a damaged checkpoint: " + folder +
                                    "/step-00000030/model.safetensors: 100 bytes, expected "));
  EXPECT_THAT(output.out, HasSubstr("step-00000026: step 26"));
  EXPECT_THAT(output.out, HasSubstr("\ndone: 4 steps"));
}

TEST(InitialWeights, ComeFromAFile) {
  const std::string file = NewPath("initial.safetensors"), same = NewPath("same.safetensors");
  ASSERT_EQ(Train(kMlp + Arguments{"--save=" + file}).exit_code, 0);
  for (const std::string precision : {"fp32", "bf16"}) {
    const ProgramOutput output =
        Train({"--model=mlp", "--hidden=16", "--data=digits", "--max_steps=1", "--learning_rate=0",
               "--seed=5", "--precision=" + precision, "--init_from=" + file, "--save=" + same});
    EXPECT_EQ(output.exit_code, 0) << output.err;
    EXPECT_EQ(Read(same), Read(file)) << precision;
  }
  const ProgramOutput misfit =
      Train({"--model=mlp", "--hidden=17", "--max_steps=1", "--init_from=" + file});
  EXPECT_EQ(misfit.exit_code, 1);
  EXPECT_THAT(misfit.last_error(),
              HasSubstr("'0.weight' is float32[16, 784], expected float32[17, 784]"));
}

// Both ranks say so; started by hand, as an agent tells only the first.
TEST(Saving, AFullDiskIsToldByAllRanks) {
  const std::string command =
      "ulimit -f 40; exec launch/train --backend=gloo --max_steps=9 --checkpoint_every=3 "
      "--model=mlp --hidden=64 --data=digits --checkpoint_dir=" +
      NewPath("full");
  std::map<std::string, std::string> environment = {{"WORLD_SIZE", "2"},
                                                    {"MASTER_ADDR", "127.0.0.1"},
                                                    {"MASTER_PORT", std::to_string(FreePort())}};
  environment["RANK"] = "1";
  Subprocess one({"/bin/bash", "-c", command}, environment);
  environment["RANK"] = "0";
  Subprocess zero({"/bin/bash", "-c", command}, environment);
  for (const ProgramOutput& output : {zero.Wait(), one.Wait()}) {
    EXPECT_EQ(output.exit_code, 1);
    EXPECT_THAT(output.last_error(), HasSubstr("rank 0"));
    EXPECT_THAT(output.last_error(), HasSubstr("can't save step 3: can't write "));
    EXPECT_THAT(output.last_error(), HasSubstr("File too large"));
  }
}

}  // namespace
}  // namespace launch
