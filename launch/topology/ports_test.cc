#include "launch/topology/ports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace launch {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::IsEmpty;
using testing::Lt;
using testing::SizeIs;

std::set<int> Distinct(const std::vector<int>& ports) { return {ports.begin(), ports.end()}; }

TEST(CandidatePorts, AreDifferentAndBelowTheKernelsOwn) {
  for (const int first_ephemeral_port : {1032, 1100, 10000, 10007, 20000, 32768, 49152}) {
    for (const int64_t job : {0L, 1L, 7L, 12345678L, 4294967295L}) {
      for (const int64_t step : {0L, 1L, 999L, 4000000000L}) {
        const std::vector<int> ports = CandidatePorts(job, step, first_ephemeral_port);
        EXPECT_THAT(ports, Each(AllOf(Ge(1024), Lt(first_ephemeral_port))));
        EXPECT_THAT(Distinct(ports), SizeIs(kNumCandidatePorts));
        EXPECT_EQ(ports, CandidatePorts(job, step, first_ephemeral_port));
      }
    }
  }
}

TEST(CandidatePorts, StayAboveWellKnownServicesWhereTheyCan) {
  EXPECT_THAT(CandidatePorts(7, 0, 32768), Each(Ge(10000)));
}

TEST(CandidatePorts, NoRoom) {
  EXPECT_THAT(CandidatePorts(7, 0, 1024), IsEmpty());
  EXPECT_THAT(CandidatePorts(7, 0, 1031), IsEmpty());
  EXPECT_THAT(CandidatePorts(7, 0, 1), IsEmpty());
}

// Jobs that run at once have numbers that are close.
TEST(CandidatePorts, CloseJobsAndStepsBeginApart) {
  std::set<int> first;
  int num_steps = 0;
  for (int64_t job = 5000; job < 5200; ++job) {
    for (int64_t step = 0; step < 20; ++step, ++num_steps) {
      first.insert(CandidatePorts(job, step, 32768)[0]);
    }
  }
  EXPECT_THAT(first, SizeIs(num_steps));
}

}  // namespace
}  // namespace launch
