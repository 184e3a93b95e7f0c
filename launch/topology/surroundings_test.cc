#include "launch/topology/surroundings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace launch {
namespace {

TEST(OwnSurroundings, KnowsItsParents) {
  const std::vector<Ancestor> lineage = OwnSurroundings().lineage;
  ASSERT_GE(lineage.size(), 2u);
  EXPECT_EQ(lineage[0].pid, getpid());
  EXPECT_EQ(lineage[0].name, "surroundings_te");  // as long as Linux keeps them
  EXPECT_EQ(lineage[1].pid, getppid());
}

TEST(OwnSurroundings, HasVariablesAndPorts) {
  const Surroundings surroundings = OwnSurroundings();
  EXPECT_TRUE(surroundings.environment("PATH").has_value());
  EXPECT_GT(surroundings.first_ephemeral_port, 0);
  EXPECT_LT(surroundings.first_ephemeral_port, 65536);
}

}  // namespace
}  // namespace launch
