#include "ddp/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "ddp/checkpoint/testing.h"

namespace ddp {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

class CheckpointTest : public testing::Test {
 protected:
  std::string Write(int64_t step) { return WriteCheckpoint(directory_, CheckpointOf(step)); }
  std::string InDirectory(const std::string& name) const { return directory_ + "/" + name; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::string directory_ = NewDirectory("checkpoints");
};

// `damage` is done to a good one, given its path.
template <class Damage>
void ExpectDamaged(const std::string& path, Damage damage, const std::string& message) {
  damage(path);
  EXPECT_THAT([&] { ReadCheckpoint(path); },
              ThrowsMessage<DamagedCheckpoint>(AllOf(HasSubstr(path), HasSubstr(message))));
  EXPECT_THROW(VerifyCheckpoint(path), DamagedCheckpoint);
}

TEST_F(CheckpointTest, ReadsBackWhatWasWritten) {
  const std::string path = Write(120);
  EXPECT_EQ(path, InDirectory("step-00000120"));
  ExpectSame(ReadCheckpoint(path), CheckpointOf(120));
  EXPECT_GT(VerifyCheckpoint(path), 2 * 100 * 4);
  EXPECT_THAT(Names(), ElementsAre("step-00000120"));
}

TEST_F(CheckpointTest, AStepThatIsSavedAgainIsTheNewerOne) {
  Write(5);
  const std::string again = Write(5);
  EXPECT_EQ(again, InDirectory("step-00000005.2"));
  Write(4);
  EXPECT_THAT(ListCheckpoints(directory_),
              ElementsAre(again, InDirectory("step-00000005"), InDirectory("step-00000004")));
}

TEST_F(CheckpointTest, ListsByNumberAndNothingElse) {
  for (const char* name : {"step-99999999", "step-100000000", "step-00000007.10", "step-00000007.9",
                           "step-", "step-x", "step-7.", "step-7.2x", ".saving-abc", "other"}) {
    fs::create_directory(InDirectory(name));
  }
  EXPECT_THAT(ListCheckpoints(directory_),
              ElementsAre(InDirectory("step-100000000"), InDirectory("step-99999999"),
                          InDirectory("step-00000007.10"), InDirectory("step-00000007.9")));
  EXPECT_THAT(ListCheckpoints("/nowhere"), IsEmpty());
}

TEST_F(CheckpointTest, DamageIsFoundAndNamed) {
  const auto flip = [](const char* file, int64_t place) {
    return [=](const std::string& path) { FlipBit(path + "/" + file, place); };
  };
  ExpectDamaged(Write(1), flip("model.safetensors", -1), "model.safetensors: its CRC-32 is ");
  ExpectDamaged(Write(2), flip("optimizer.safetensors", 20), "optimizer.safetensors: its CRC-32");
  ExpectDamaged(Write(3), flip("state.json", 12), "state.json: its CRC-32");
  ExpectDamaged(Write(4), flip("manifest.json", 0), "manifest.json: ");
  ExpectDamaged(
      Write(5), [](const std::string& path) { fs::resize_file(path + "/model.safetensors", 300); },
      "model.safetensors: 300 bytes, expected ");
  ExpectDamaged(
      Write(6), [](const std::string& path) { fs::remove(path + "/optimizer.safetensors"); },
      "optimizer.safetensors: No such file");
  ExpectDamaged(
      Write(7), [](const std::string& path) { fs::remove(path + "/manifest.json"); },
      "manifest.json: No such file");
  ExpectDamaged(
      Write(8), [](const std::string& path) { std::ofstream(path + "/manifest.json") << "{}"; },
      "manifest.json: ");
}

TEST_F(CheckpointTest, AnEmptyFileIsDamageToo) {
  for (const char* name : {"manifest.json", "state.json", "model.safetensors"}) {
    const std::string path = Write(1);
    fs::resize_file(path + "/" + name, 0);
    EXPECT_THROW(ReadCheckpoint(path), DamagedCheckpoint) << name;
    fs::remove_all(path);
  }
}

TEST_F(CheckpointTest, EveryFlippedBitOfTheManifestIsFoundOrHarmless) {
  const std::string path = Write(1);
  const std::string manifest = path + "/manifest.json";
  for (uint64_t place = 0; place < fs::file_size(manifest); ++place) {
    FlipBit(manifest, static_cast<int64_t>(place));
    try {
      ExpectSame(ReadCheckpoint(path), CheckpointOf(1));
    } catch (const DamagedCheckpoint&) {
    }
    FlipBit(manifest, static_cast<int64_t>(place));
  }
  ExpectSame(ReadCheckpoint(path), CheckpointOf(1));
}

TEST_F(CheckpointTest, OldOnesAndLeftoversGo) {
  fs::create_directories(InDirectory(".saving-killed/deep"));
  fs::create_directories(InDirectory(".deleted-step-00000001/deep"));
  for (int step = 1; step <= 5; ++step) Write(step);
  DeleteOldCheckpoints(directory_, InDirectory("step-00000004"), /*keep=*/2);
  EXPECT_THAT(Names(), ElementsAre("step-00000003", "step-00000004", "step-00000005"));
}

// The older one of a step that was saved twice may be damaged: it doesn't count.
TEST_F(CheckpointTest, WhatIsKeptAreSteps) {
  for (const int step : {1, 2, 3}) Write(step);
  const std::string newest = Write(3);
  DeleteOldCheckpoints(directory_, newest, /*keep=*/2);
  EXPECT_THAT(ListCheckpoints(directory_), ElementsAre(newest, InDirectory("step-00000002")));
}

TEST_F(CheckpointTest, WhatCantBeWrittenLeavesNothing) {
  Checkpoint checkpoint = CheckpointOf(1);
  checkpoint.tensors["../model"] = {};
  EXPECT_THAT([&] { WriteCheckpoint(directory_, checkpoint); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("'../model'")));
  checkpoint = CheckpointOf(1);
  checkpoint.tensors["model"].push_back(checkpoint.tensors["model"][0]);
  EXPECT_THROW(WriteCheckpoint(directory_, checkpoint), std::invalid_argument);
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_THAT([] { WriteCheckpoint("/nowhere", CheckpointOf(1)); },
              ThrowsMessage<std::system_error>(HasSubstr("can't write /nowhere")));
}

TEST_F(CheckpointTest, NamesTheGroupThatIsMissing) {
  EXPECT_THAT([] { CheckpointOf(7).Group("averages"); },
              ThrowsMessage<std::invalid_argument>(
                  HasSubstr("the checkpoint of step 7 has no 'averages'")));
}

}  // namespace
}  // namespace ddp
