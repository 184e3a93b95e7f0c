#include "launch/topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

namespace launch {
namespace {

using Variables = std::map<std::string, std::string>;
using testing::HasSubstr;

std::optional<Identity> Read(const Variables& variables) {
  return IdentityFrom([&](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

// The smallest set that makes a rank, with changes; an empty optional takes a variable away.
Variables Rank(const std::map<std::string, std::optional<std::string>>& changes = {}) {
  Variables variables = {
      {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : changes) {
    if (value) {
      variables[name] = *value;
    } else {
      variables.erase(name);
    }
  }
  return variables;
}

TEST(Topology, NobodySaid) {
  EXPECT_EQ(Read({}), std::nullopt);
  // Batch scripts export where to meet before anything knows its rank.
  EXPECT_EQ(Read({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}}), std::nullopt);
  EXPECT_EQ(Read({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}}), std::nullopt);
}

TEST(Topology, FourVariablesMakeARank) {
  EXPECT_EQ(Read(Rank()), (Identity{1, 4, 0, 1, "node7", 29500}));
}

TEST(Topology, LocalPlace) {
  EXPECT_EQ(Read(Rank({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}})),
            (Identity{1, 4, 1, 2, "node7", 29500}));
}

TEST(Topology, AddressesStayAsGiven) {
  EXPECT_EQ(Read(Rank({{"MASTER_ADDR", "fe80::1"}}))->master_addr, "fe80::1");
}

struct BadCase {
  std::string variable, value, expected;
};

class BadEnvironment : public testing::TestWithParam<BadCase> {};

TEST_P(BadEnvironment, NamesVariableValueAndWhatIsExpected) {
  const BadCase& bad = GetParam();
  try {
    Read(Rank({{bad.variable, bad.value}}));
    FAIL() << bad.variable << "=" << bad.value << " was accepted";
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), HasSubstr(bad.variable + "=" + bad.value));
    EXPECT_THAT(e.what(), HasSubstr(bad.expected));
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadEnvironment,
                         testing::Values(BadCase{"RANK", "4", "below WORLD_SIZE=4"},
                                         BadCase{"RANK", "-1", "below"},
                                         BadCase{"RANK", "one", "below"},
                                         BadCase{"RANK", "1.5", "below"},
                                         BadCase{"RANK", "99999999999999999999", "below"},
                                         BadCase{"WORLD_SIZE", "0", "whole number from 1"},
                                         BadCase{"WORLD_SIZE", "4 ", "whole number from 1"},
                                         BadCase{"LOCAL_WORLD_SIZE", "5", "at most WORLD_SIZE=4"},
                                         BadCase{"LOCAL_WORLD_SIZE", "0", "at most WORLD_SIZE=4"},
                                         BadCase{"MASTER_PORT", "http", "1 to 65535"},
                                         BadCase{"MASTER_PORT", "0", "1 to 65535"},
                                         BadCase{"MASTER_PORT", "65536", "1 to 65535"}));

class MissingVariable : public testing::TestWithParam<std::string> {};

TEST_P(MissingVariable, IsNamed) {
  for (const bool empty : {false, true}) {
    try {
      Read(Rank({{GetParam(), empty ? std::optional<std::string>("") : std::nullopt}}));
      FAIL() << "accepted without " << GetParam();
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), HasSubstr(GetParam() + (empty ? " is empty" : " is not set")));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, MissingVariable,
                         testing::Values("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"));

TEST(Topology, LocalPlaceIsCheckedToo) {
  EXPECT_THROW(Read(Rank({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}})), std::invalid_argument);
  EXPECT_THROW(Read(Rank({{"LOCAL_RANK", "0"}})), std::invalid_argument);
  EXPECT_THROW(Read(Rank({{"LOCAL_WORLD_SIZE", "2"}})), std::invalid_argument);
}

}  // namespace
}  // namespace launch
