#include "launch/agent/affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

namespace launch {
namespace {

using testing::HasSubstr;
using testing::Optional;

TEST(Affinity, OneCpuForSeveralThreadsIsAWarning) {
  EXPECT_THAT(OneCpuWarning({.allowed = 1, .online = 64}, 4),
              Optional(HasSubstr("4 threads or ranks share one of this machine's 64 CPUs")));
  EXPECT_FALSE(OneCpuWarning({.allowed = 1, .online = 64}, 1));
  EXPECT_FALSE(OneCpuWarning({.allowed = 2, .online = 64}, 4));
  EXPECT_FALSE(OneCpuWarning({.allowed = 1, .online = 1}, 4)) << "there is no more to be had";
}

TEST(Affinity, CountsTheMask) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(AvailableCpus().allowed, CPU_COUNT(&all));
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(AvailableCpus().allowed, 1);
  EXPECT_GE(AvailableCpus().online, CPU_COUNT(&all));
  EXPECT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

}  // namespace
}  // namespace launch
