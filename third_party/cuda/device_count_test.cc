#include "third_party/cuda/device_count.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string>

namespace third_party::cuda {
namespace {

TEST(DeviceCountTest, SaysWhyThereIsNone) {
  std::string why_none;
  const int count = DeviceCount(&why_none);
  std::cout << "CUDA devices: " << count << " " << why_none << "\n";
  EXPECT_GE(count, 0);
  EXPECT_EQ(why_none.empty(), count > 0);
}

TEST(DeviceCountTest, IsTheSameEveryTime) { EXPECT_EQ(DeviceCount(), DeviceCount()); }

}  // namespace
}  // namespace third_party::cuda
