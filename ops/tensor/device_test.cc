#include "ops/tensor/device.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "ops/tensor/tensor.h"
#include "third_party/cuda/device_count.h"

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(DeviceTest, ParsesWhatItPrints) {
  for (const Device& device : {Device::Cpu(), Device::Cuda(), Device::Cuda(3)}) {
    EXPECT_EQ(Device::Parse(device.ToString()), device);
  }
  EXPECT_EQ(Device::Parse("cuda"), Device::Cuda(0));
  EXPECT_EQ(Device::Cuda(1).ToString(), "cuda:1");
}

TEST(DeviceTest, RefusesOtherText) {
  for (const char* text :
       {"", "gpu", "CPU", "cpu:0", "cuda:", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999"}) {
    EXPECT_THAT([&] { Device::Parse(text); },
                ThrowsMessage<std::invalid_argument>(
                    AllOf(HasSubstr(fmt::format("'{}'", text)), HasSubstr("cuda:N"))));
  }
}

TEST(DeviceTest, CpuIsAlwaysAvailable) { EXPECT_NO_THROW(CheckAvailable(Device::Cpu())); }

TEST(DeviceTest, SaysWhyADeviceCantBeUsedAndWhatWouldWork) {
  std::string why_none;
  const bool has_gpu = third_party::cuda::DeviceCount(&why_none) > 0;
  EXPECT_THAT(
      [] { CheckAvailable(Device::Cuda(1000)); },
      ThrowsMessage<std::invalid_argument>(AllOf(
          HasSubstr("cuda:1000"), HasSubstr(has_gpu ? "cuda:0" : "'cpu'"), HasSubstr(why_none))));
}

TEST(DeviceTest, TensorOnADeviceThatDoesntExistThrows) {
  EXPECT_THAT([] { Tensor::Zeros({2}, {.device = Device::Cuda(1000)}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("cuda:1000")));
}

}  // namespace
}  // namespace ops
