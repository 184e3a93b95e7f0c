#include "launch/topology/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "launch/topology/testing.h"

namespace launch {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::optional<int> Count(const Variables& variables) {
  return CountVisibleGpus(SurroundingsWith(variables).environment);
}

TEST(Gpus, AreCountedWhateverTheirNames) {
  EXPECT_EQ(Count({}), std::nullopt);
  EXPECT_EQ(Count({{"CUDA_VISIBLE_DEVICES", ""}}), 0);
  EXPECT_EQ(Count({{"CUDA_VISIBLE_DEVICES", "-1"}}), 0);
  EXPECT_EQ(Count({{"CUDA_VISIBLE_DEVICES", "NoDevFiles"}}), 0);
  EXPECT_EQ(Count({{"CUDA_VISIBLE_DEVICES", "3"}}), 1);
  EXPECT_EQ(Count({{"CUDA_VISIBLE_DEVICES", "GPU-8932f937,MIG-61a3"}}), 2);
}

TEST(Gpus, OneByLocalRank) {
  EXPECT_EQ(ChooseGpu(1, 4, 4), 1);
  EXPECT_EQ(ChooseGpu(3, 4, 8), 3);
}

// Slurm shows each task its own GPU: then it is number 0, not LOCALID.
TEST(Gpus, TheOnlyOneThatIsVisible) { EXPECT_EQ(ChooseGpu(3, 4, 1), 0); }

TEST(Gpus, TooFewAreNamed) {
  EXPECT_THAT([] { ChooseGpu(0, 4, 2); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("see 2 GPUs: expected 1 or 4")));
  EXPECT_THROW(ChooseGpu(0, 1, 0), std::invalid_argument);
}

}  // namespace
}  // namespace launch
