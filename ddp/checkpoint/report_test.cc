#include "ddp/checkpoint/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ddp/checkpoint/testing.h"

namespace ddp {
namespace {

TEST(Report, DescribesACheckpoint) {
  const Checkpoint checkpoint = {
      .step = 120,
      .epoch = 1,
      .samples_in_epoch = 64,
      .counters = {{"batches", 120}, {"skipped_steps", 0}},
      .settings = {{"model", "mlp"}},
      .tensors = {
          {"model", {{"w", ops::Tensor::Zeros({2, 3})}, {"bias", ops::Tensor::Zeros({3})}}}}};
  EXPECT_EQ(Describe(checkpoint),
            "step 120, epoch 1, 64 samples of it\n"
            "counters: batches 120, skipped_steps 0\n"
            "settings: model mlp\n"
            "model: 2 tensors, 36 bytes\n"
            "  w     float32[2, 3]\n"
            "  bias  float32[3]\n");
}

TEST(Report, EqualBitsDontDiffer) {
  EXPECT_EQ(DescribeDifferences(CheckpointOf(3), CheckpointOf(3)), "");
}

TEST(Report, NamesWhatDiffers) {
  Checkpoint one = CheckpointOf(3), other = CheckpointOf(3);
  other.step = 4;
  other.counters["loops"] = 1;
  other.settings["model"] = "gpt";
  auto& tensors = other.tensors["model"];
  tensors[0].tensor.data<float>()[7] += 0.25f;
  tensors[1] = {"0.bias", ops::Tensor::Zeros({5})};
  tensors[2].name = "nothing";
  EXPECT_EQ(DescribeDifferences(one, other),
            "step: 3 and 4\n"
            "counter loops: 0 and 1\n"
            "setting model: mlp and gpt\n"
            "model 0.bias: bfloat16[3, 2] and float32[5]\n"
            "model 0.weight: 1 of 100 elements, by at most 0.25\n"
            "model none: only in the first\n"
            "model nothing: only in the second\n");
}

// NaN equals itself, and 0 isn't -0: bits count.
TEST(Report, ComparesBits) {
  const auto of = [](float value) {
    return Checkpoint{.tensors = {{"model", {{"w", ops::Tensor::Full({2}, value)}}}}};
  };
  EXPECT_EQ(DescribeDifferences(of(NAN), of(NAN)), "");
  EXPECT_EQ(DescribeDifferences(of(0.0f), of(-0.0f)), "model w: 2 of 2 elements, by at most 0\n");
}

}  // namespace
}  // namespace ddp
