#include "ddp/collectives/shm/waiter.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ddp/collectives/shm/segment.h"
#include "ddp/collectives/trouble.h"

namespace ddp::shm {
namespace {

using namespace std::chrono_literals;

TEST(Waiter, ThrowsWhenThePeerHasLeft) {
  const std::unique_ptr<Segment> segment = Segment::Create(2);
  Waiter waiter(*segment);
  segment->Close(1);
  try {
    waiter.Await(
        segment->control(0).bell, [] { return false; }, [] { return std::vector{1}; },
        DeadlineAfter(1min));
    FAIL() << "nobody was missed";
  } catch (const PeerTrouble& trouble) {
    EXPECT_EQ(trouble.kind(), PeerTrouble::kLost);
    EXPECT_EQ(trouble.ranks(), std::vector{1});
  }
}

// What is waited for comes between the look for it and the look at the peer, which then leaves.
TEST(Waiter, CountsWhatAPeerDidBeforeItLeft) {
  const std::unique_ptr<Segment> segment = Segment::Create(2);
  Waiter waiter(*segment);
  Counter& bell = segment->control(0).bell;
  const uint32_t seen = bell.value();
  const auto missing = [&] {
    if (bell.value() == seen) {
      bell.Increment();
      segment->Close(1);
    }
    return std::vector{1};
  };
  EXPECT_NO_THROW(waiter.Await(
      bell, [&] { return bell.value() != seen; }, missing, DeadlineAfter(1min)));
}

}  // namespace
}  // namespace ddp::shm
