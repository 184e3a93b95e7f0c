#include "ddp/collectives/shm/regions.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "ddp/collectives/shm/memory.h"
#include "ddp/collectives/shm/process.h"
#include "ddp/file_descriptor.h"
#include "ops/tensor/tensor.h"

namespace ddp::shm {
namespace {

constexpr int64_t kNumBytes = 4096;

TEST(OpenMemory, FindsWhatTheOwnerHas) {
  const SharedMemory memory = CreateMemory(kNumBytes, /*reserve=*/false);
  const FileDescriptor file = OpenMemory(ThisProcess(), memory.name);
  ASSERT_TRUE(file.is_open());
  const Mapping mapping(file.get(), kNumBytes);
  mapping.data()[7] = std::byte{42};
  EXPECT_EQ(memory.mapping.data()[7], std::byte{42});
}

// The owner has freed the memory, and has got its descriptor's number for something else.
TEST(OpenMemory, LeavesOtherFilesAlone) {
  const std::vector<std::function<int()>> others = {
      [] { return socket(AF_UNIX, SOCK_STREAM, 0); },
      [] { return open("/proc/self/status", O_RDONLY); },
      [] { return open("/dev/null", O_WRONLY); },
      [] { return CreateMemory(kNumBytes, /*reserve=*/false).file.Release(); },
  };
  for (const auto& open_other : others) {
    SharedMemory memory = CreateMemory(kNumBytes, /*reserve=*/false);
    const MemoryName name = memory.name;
    const FileDescriptor other(open_other());
    ASSERT_TRUE(other.is_open());
    ASSERT_EQ(dup2(other.get(), name.fd), name.fd);
    EXPECT_FALSE(HasMemory(ThisProcess(), name));
    EXPECT_FALSE(OpenMemory(ThisProcess(), name).is_open());
  }
}

TEST(OpenMemory, ComparesTheDevice) {
  const SharedMemory memory = CreateMemory(kNumBytes, /*reserve=*/false);
  MemoryName name = memory.name;
  ++name.device;
  EXPECT_FALSE(OpenMemory(ThisProcess(), name).is_open());
}

TEST(PeerRegions, AreWhereThePeerHasThem) {
  const auto regions = std::make_shared<Regions>();
  const ops::Memory memory = regions->Allocate(kNumBytes);
  PeerRegions peer_regions(ThisProcess());
  std::byte* const found = peer_regions.Find(regions->Find(memory.get() + 8, 4), 0);
  ASSERT_NE(found, nullptr);
  *found = std::byte{42};
  EXPECT_EQ(memory.get()[8], std::byte{42});
}

// As after a failure, which the peers notice at different times.
TEST(PeerRegions, StayWhenThePeerFreesThem) {
  const auto regions = std::make_shared<Regions>();
  ops::Memory memory = regions->Allocate(kNumBytes);
  const Placement placement = regions->Find(memory.get(), kNumBytes);
  PeerRegions peer_regions(ThisProcess());
  std::byte* const found = peer_regions.Find(placement, regions->num_freed());
  ASSERT_NE(found, nullptr);
  memory.reset();
  std::memset(found, 1, kNumBytes);
  EXPECT_EQ(found[kNumBytes - 1], std::byte{1});
  EXPECT_EQ(peer_regions.Find(placement, regions->num_freed()), nullptr);
}

}  // namespace
}  // namespace ddp::shm
