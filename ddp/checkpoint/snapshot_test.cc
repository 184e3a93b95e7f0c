#include "ddp/checkpoint/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddp/checkpoint/testing.h"
#include "ops/cpu/thread_pool.h"

namespace ddp {
namespace {

TEST(Snapshot, KeepsWhatTheTensorsWere) {
  ops::cpu::ThreadPool pool(3);
  const ops::cpu::ScopedThreadPool use(&pool);
  const Checkpoint original = CheckpointOf(3, /*num_elements=*/3'000'001);
  Snapshot snapshot;
  const Checkpoint copy = snapshot.Take(original);
  ExpectSame(copy, original);
  for (const auto& [name, tensor] : original.Group("model")) tensor.Fill(7);
  ExpectSame(copy, CheckpointOf(3, 3'000'001));
}

TEST(Snapshot, UsesItsMemoryAgain) {
  Snapshot snapshot;
  snapshot.Prepare(Snapshot::BytesOf(CheckpointOf(1)));
  const auto place = [&](const Checkpoint& checkpoint) {
    return snapshot.Take(checkpoint).Group("model")[0].tensor.raw_data();
  };
  const Checkpoint checkpoint = CheckpointOf(1);
  const std::byte* const first = place(checkpoint);
  EXPECT_EQ(place(CheckpointOf(2)), first);
  ExpectSame(snapshot.Take(CheckpointOf(4, 5000)), CheckpointOf(4, 5000));
  ExpectSame(snapshot.Take(checkpoint), checkpoint);
}

TEST(Snapshot, NamesATensorThatIsNone) {
  Snapshot snapshot;
  EXPECT_THAT(
      [&] {
        snapshot.Take({.tensors = {{"model", {{"w", {}}}}}});
      },
      testing::ThrowsMessage<std::invalid_argument>(
          testing::HasSubstr("can't hold 'w' of model: it is undefined")));
}

}  // namespace
}  // namespace ddp
