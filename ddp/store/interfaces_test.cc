#include "ddp/store/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace ddp {
namespace {

const std::vector<InterfaceAddress> kInterfaces = {
    {"lo", "127.0.0.1"}, {"eth10", "10.0.0.10"}, {"eth1", "10.0.0.1"},  {"ib0", "10.1.0.1"},
    {"lo", "::1"},       {"eth1", "fd00::1"},    {"ib1", "fe80::1%ib1"}};

TEST(InterfacesTest, ByNameByAddressAndByTheBeginningOfAName) {
  EXPECT_EQ(ChooseInterface(kInterfaces, "eth1"), "10.0.0.1") << "the whole name goes first";
  EXPECT_EQ(ChooseInterface(kInterfaces, "eth"), "10.0.0.10");
  EXPECT_EQ(ChooseInterface(kInterfaces, "ib"), "10.1.0.1");
  EXPECT_EQ(ChooseInterface(kInterfaces, "fd00::1"), "fd00::1");
  EXPECT_EQ(ChooseInterface(kInterfaces, "ib1"), "fe80::1%ib1");
}

TEST(InterfacesTest, OthersAreToldWhatThereIs) {
  for (const char* wanted : {"eth2", "10.9.9.9", "^lo", ""}) {
    try {
      ChooseInterface(kInterfaces, wanted);
      FAIL() << wanted;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("there are eth1, eth10, ib0, ib1, lo"));
    }
  }
}

TEST(InterfacesTest, ThisMachineHasALoopbackInterface) {
  EXPECT_EQ(ChooseInterface(ListInterfaces(), "lo"), "127.0.0.1");
}

}  // namespace
}  // namespace ddp
