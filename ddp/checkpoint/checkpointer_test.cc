#include "ddp/checkpoint/checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <functional>
#include <memory>

#include "ddp/checkpoint/testing.h"
#include "ddp/collectives/testing.h"
#include "ops/autograd/functions.h"
#include "ops/autograd/grad.h"
#include "ops/nn/layers.h"
#include "ops/optim/adam.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::ThrowsMessage;

// Three ranks, each with an end of a checkpointer. (Over TCP: shared memory is files, of which a
// test below limits the size.)
class CheckpointerTest : public testing::Test {
 protected:
  using Body = std::function<void(int rank, Checkpointer& checkpointer)>;

  void Run(const Body& body, int64_t keep = 2) {
    RunRanks(3, [&](TestRank& rank) {
      const auto group = rank.Join(TestSetting{"gloo", 3});
      Checkpointer checkpointer(*group, {.directory = directory_, .keep = keep});
      body(rank.rank(), checkpointer);
    });
  }

  std::string InDirectory(const std::string& name) const { return directory_ + "/" + name; }

  const std::string directory_ = NewDirectory("checkpoints");
};

// Only rank 0's tensors count.
Checkpoint Of(int64_t step, int rank) { return rank == 0 ? CheckpointOf(step) : Checkpoint(); }

TEST_F(CheckpointerTest, AllRanksResumeWithWhatRankZeroSaved) {
  Run([&](int rank, Checkpointer& checkpointer) {
    EXPECT_FALSE(checkpointer.Load(Resume::kAuto).has_value());
    EXPECT_FALSE(checkpointer.Load(Resume::kNever).has_value());
    for (int step = 1; step <= 4; ++step) checkpointer.Save(Of(step, rank));
    const auto loaded = checkpointer.Load(Resume::kMust);
    ASSERT_TRUE(loaded.has_value());
    ExpectSame(*loaded, CheckpointOf(4));
    EXPECT_EQ(checkpointer.loaded_path(), InDirectory("step-00000004"));
    EXPECT_THAT(checkpointer.passed_over(), IsEmpty());
  });
  EXPECT_THAT(ListCheckpoints(directory_),
              ElementsAre(InDirectory("step-00000004"), InDirectory("step-00000003")));
}

TEST_F(CheckpointerTest, TensorsMayChangeOnceSaveReturns) {
  Run([&](int rank, Checkpointer& checkpointer) {
    const Checkpoint checkpoint = CheckpointOf(1, 500'000);
    checkpointer.Save(checkpoint);
    for (const auto& [group, tensors] : checkpoint.tensors) {
      for (const auto& [name, tensor] : tensors) tensor.Fill(rank);
    }
    ExpectSame(*checkpointer.Load(Resume::kMust), CheckpointOf(1, 500'000));
  });
}

TEST_F(CheckpointerTest, PreparingChangesNothingButTheTimeOfTheFirstSave) {
  Run([&](int rank, Checkpointer& checkpointer) {
    const Checkpoint checkpoint = CheckpointOf(1, 500'000);
    checkpointer.Prepare(checkpoint);
    checkpointer.Save(checkpoint);
    checkpointer.Prepare(checkpoint);  // what is being saved stays as it is
    ExpectSame(*checkpointer.Load(Resume::kMust), checkpoint);
    EXPECT_EQ(checkpointer.saved_step(), rank == 0 ? std::optional<int64_t>(1) : std::nullopt);
  });
}

TEST_F(CheckpointerTest, DamagedOnesArePassedOver) {
  for (int step = 1; step <= 3; ++step) WriteCheckpoint(directory_, CheckpointOf(step));
  fs::resize_file(InDirectory("step-00000003/model.safetensors"), 10);
  FlipBit(InDirectory("step-00000002/optimizer.safetensors"), -5);
  Run([&](int, Checkpointer& checkpointer) {
    for (const Resume resume : {Resume::kAuto, Resume::kMust}) {
      ExpectSame(*checkpointer.Load(resume), CheckpointOf(1));
      EXPECT_THAT(checkpointer.passed_over(),
                  ElementsAre(HasSubstr("step-00000003/model.safetensors: 10 bytes, expected "),
                              HasSubstr("step-00000002/optimizer.safetensors: its CRC-32 is ")));
    }
  });
}

TEST_F(CheckpointerTest, MustNeedsAWholeOne) {
  Run([&](int, Checkpointer& checkpointer) {
    EXPECT_THAT([&] { checkpointer.Load(Resume::kMust); },
                ThrowsMessage<CheckpointError>("rank 0: there is no checkpoint in " + directory_));
  });
  fs::create_directory(InDirectory("step-00000001"));
  Run([&](int rank, Checkpointer& checkpointer) {
    EXPECT_FALSE(checkpointer.Load(Resume::kAuto).has_value());
    EXPECT_THAT(checkpointer.passed_over(), ElementsAre(HasSubstr("step-00000001/manifest.json")));
    EXPECT_THAT([&] { checkpointer.Load(Resume::kMust); },
                ThrowsMessage<CheckpointError>(
                    AllOf(StartsWith("rank 0: there is no whole checkpoint in "),
                          HasSubstr("step-00000001/manifest.json: No such file"))));
    checkpointer.Save(Of(1, rank));  // the group and the directory go on being usable
    ExpectSame(*checkpointer.Load(Resume::kMust), CheckpointOf(1));
  });
}

TEST_F(CheckpointerTest, ATrainingThatBeginsAnewNeedsAnEmptyDirectory) {
  WriteCheckpoint(directory_, CheckpointOf(1));
  Run([&](int, Checkpointer& checkpointer) {
    EXPECT_THAT([&] { checkpointer.Load(Resume::kNever); },
                ThrowsMessage<CheckpointError>(HasSubstr("step-00000001 is there: choose")));
  });
}

// A limit on the size of files that this process writes, until the scope ends; going beyond it is
// like a full disk, and by default also a signal that ends the process.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t num_bytes) {
    getrlimit(RLIMIT_FSIZE, &previous_);
    const rlimit limit = {num_bytes, previous_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &previous_); }

 private:
  rlimit previous_;
};

TEST_F(CheckpointerTest, WhatCantBeSavedIsSaidOnAllRanksAtTheNextCall) {
  Run([&](int rank, Checkpointer& checkpointer) {
    checkpointer.Save(Of(1, rank));
    checkpointer.Finish();
  });
  {
    const FileSizeLimit limit(50'000);
    Run([&](int rank, Checkpointer& checkpointer) {
      const auto error = ThrowsMessage<CheckpointError>(
          AllOf(StartsWith("rank 0: can't save step 2: can't write " + directory_),
                HasSubstr("model.safetensors"), HasSubstr("File too large")));
      const Checkpoint large = CheckpointOf(2, 100'000);
      checkpointer.Save(large);
      EXPECT_THAT([&] { checkpointer.Save(Of(3, rank)); }, error);
      checkpointer.Save(large);
      EXPECT_THAT([&] { checkpointer.Finish(); }, error);
      ExpectSame(*checkpointer.Load(Resume::kMust), CheckpointOf(1));
    });
  }
  EXPECT_THAT(ListCheckpoints(directory_), ElementsAre(InDirectory("step-00000001")));
}

TEST_F(CheckpointerTest, ADirectoryThatCantBeUsedIsNamedOnAllRanks) {
  RunRanks(2, [&](TestRank& rank) {
    const auto group = rank.Join();
    EXPECT_THAT([&] { Checkpointer(*group, {.directory = "/proc/checkpoints"}); },
                ThrowsMessage<CheckpointError>(
                    AllOf(StartsWith("rank 0: "), HasSubstr("/proc/checkpoints"))));
    EXPECT_THROW(Checkpointer(*group, {.directory = ""}), std::invalid_argument);
    EXPECT_THROW(Checkpointer(*group, {.directory = directory_, .keep = 0}), std::invalid_argument);
  });
}

TEST(Together, SaysWhichRankFailed) {
  RunRanks(3, [](TestRank& rank) {
    const auto group = rank.Join();
    int calls = 0;
    Together(*group, [&] { ++calls; });
    EXPECT_EQ(calls, 1);
    try {
      Together(*group, [&] {
        if (rank.rank() > 0) throw std::runtime_error("the disk of this rank is wet");
      });
      ADD_FAILURE() << "no error";
    } catch (const CheckpointError& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_STREQ(error.what(), "rank 1: the disk of this rank is wet");
    }
  });
}

// A model with dropout, whose masks depend on the step.
struct Training {
  explicit Training(uint64_t seed) : generator(seed) {}

  void Step(int64_t step) {
    const ops::nn::ScopedBatchPosition position(step, /*first_example=*/0);
    optimizer.ZeroGrad();
    const ops::Tensor noise = ops::Tensor::Randn({8, 6}, generator);
    ops::Backward(ops::Mean(model->Forward(noise)));
    optimizer.Step();
  }

  Checkpoint State(int64_t step) const {
    return {.step = step,
            .tensors = {{"model", model->StateDict()},
                        {"optimizer", optimizer.StateDict()},
                        {"random", {{"noise", generator.State()}}}}};
  }

  void Load(const Checkpoint& checkpoint) {
    model->LoadStateDict(checkpoint.Group("model"));
    optimizer.LoadStateDict(checkpoint.Group("optimizer"));
    generator = ops::Generator::FromState(checkpoint.Group("random")[0].tensor);
  }

  static std::unique_ptr<ops::nn::Sequential> MakeModel() {
    ops::Generator initial(5);
    auto model = std::make_unique<ops::nn::Sequential>();
    model->Add<ops::nn::Linear>(6, 7, ops::nn::LinearOptions{.generator = &initial});
    model->Add<ops::nn::Dropout>(0.5, &initial);
    model->Add<ops::nn::Linear>(7, 2, ops::nn::LinearOptions{.generator = &initial});
    return model;
  }

  ops::Generator generator;
  const std::unique_ptr<ops::nn::Sequential> model = MakeModel();
  ops::optim::AdamW optimizer{model->Parameters(), {.learning_rate = 0.1}};
};

TEST(Checkpointer, ATrainingGoesOnAsIfNothingHadBeen) {
  const auto group = InitProcessGroup({});
  Checkpointer checkpointer(*group, {.directory = NewDirectory("training")});
  Training straight(1);
  for (int step = 0; step < 12; ++step) {
    straight.Step(step);
    if (step == 6) checkpointer.Save(straight.State(step + 1));
  }
  Training resumed(2);
  const Checkpoint checkpoint = *checkpointer.Load(Resume::kMust);
  resumed.Load(checkpoint);
  for (int64_t step = checkpoint.step; step < 12; ++step) resumed.Step(step);
  ExpectSame(resumed.State(12), straight.State(12));
}

}  // namespace
}  // namespace ddp
