// The backend with real processes: what threads can't show.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ddp/collectives/shm/testing.h"
#include "ddp/store/file_store.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using shm::TestRank;

constexpr int64_t kLarge = 16 << 20;  // elements

// Ranks as processes: forked before there are any threads.
class Processes {
 public:
  // What a rank calls when the test may go on.
  using Ready = std::function<void()>;
  using Body = std::function<void(TestRank&, const Ready&)>;

  // Returns when all are ready.
  Processes(int size, const Body& body) {
    const std::string store = fmt::format("{}/store{}", testing::TempDir(), getpid());
    std::filesystem::remove(store);
    FileStore keeper(store);  // keeps what others set while it is open
    for (int rank = 0; rank < size; ++rank) {
      pids_.push_back(fork());
      if (pids_.back() == 0) RunChild(store, rank, size, body);
    }
    for (int rank = 0; rank < size; ++rank) keeper.Get(ReadyKey(rank));
  }
  ~Processes() {
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
      if (pids_[rank] > 0) Signal(rank, SIGKILL), Await(rank);
    }
  }

  void Signal(int rank, int signal) { kill(pids_[rank], signal); }
  // Returns the exit code, or -1 for one that was killed.
  int Await(int rank) {
    int status = 0;
    waitpid(pids_[rank], &status, 0);
    pids_[rank] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  static std::string ReadyKey(int rank) { return fmt::format("ready/{}", rank); }

  [[noreturn]] static void RunChild(const std::string& path, int rank, int size, const Body& body) {
    {
      const auto store = std::make_shared<FileStore>(path);
      TestRank self(shm::MakeMeeting(store, rank, size));
      body(self, [&] { store->Set(ReadyKey(rank), "yes"); });
    }
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }

  std::vector<pid_t> pids_;
};

void AllReduce(TestRank& rank, const ops::Memory& memory, int64_t num_elements,
               Duration timeout = 1min) {
  const Buffer buffer{memory.get(), num_elements};
  rank.Run({.kind = OperationKind::kAllReduce, .input = buffer, .output = buffer}, timeout);
}

void ExpectSuccess(Processes& ranks, int size) {
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(ranks.Await(rank), 0) << "rank " << rank;
}

TEST(Processes, ReadAndWriteEachOthersMemory) {
  Processes ranks(3, [](TestRank& rank, const Processes::Ready& ready) {
    ready();
    std::vector<ops::Memory> kept;
    for (int repeat = 0; repeat < 60; ++repeat) {
      // Some is freed at once, some later: peers have mapped it by then.
      const int64_t num_elements = 20'000 + 1000 * repeat;
      kept.push_back(rank.backend().Allocate(num_elements * 4));
      float* const values = reinterpret_cast<float*>(kept.back().get());
      std::fill_n(values, num_elements, rank.rank() + repeat);
      AllReduce(rank, kept.back(), num_elements);
      for (int64_t i = 0; i < num_elements; ++i) ASSERT_EQ(values[i], 3 + 3 * repeat) << i;
      if (repeat % 3 != 0) kept.pop_back();
      if (repeat == 40) kept.clear();
    }
    // 13 of each peer, at most, are still mapped.
    EXPECT_LT(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}), 40);
  });
  ExpectSuccess(ranks, 3);
}

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Faults : testing::TestWithParam<bool> {
  // All-reduces 64 MiB until that fails, and passes on why.
  template <class F>
  void AllReduceUntilTrouble(TestRank& rank, const Processes::Ready& ready, Duration timeout,
                             F on_trouble) {
    const int64_t num_bytes = kLarge * int64_t{sizeof(float)};
    const ops::Memory memory =
        GetParam() ? rank.backend().Allocate(num_bytes) : ops::AllocateMemory(num_bytes);
    std::memset(memory.get(), 0, num_bytes);
    AllReduce(rank, memory, kLarge);
    ready();
    try {
      while (true) AllReduce(rank, memory, kLarge, timeout);
    } catch (const PeerTrouble& trouble) {
      on_trouble(trouble);
    }
  }
};

TEST_P(Faults, DeathIsNoticedByAllAndNamed) {
  int time_of_death[2];  // a pipe
  ASSERT_EQ(pipe(time_of_death), 0);
  Processes ranks(3, [&](TestRank& rank, const Processes::Ready& ready) {
    AllReduceUntilTrouble(rank, ready, 1min, [&](const PeerTrouble& trouble) {
      const auto noticed = Clock::now();
      EXPECT_EQ(trouble.kind(), PeerTrouble::kLost);
      EXPECT_EQ(trouble.ranks(), std::vector<int>{1});
      EXPECT_THAT(trouble.reason(), testing::AnyOf("killed by signal 9", "its process is gone"));
      Clock::time_point died;
      ASSERT_EQ(read(time_of_death[0], &died, sizeof died), ssize_t{sizeof died});
      EXPECT_LT(noticed - died, 10s);
    });
  });
  std::this_thread::sleep_for(100ms);  // then it is in the middle of one of them
  const auto now = Clock::now();
  ranks.Signal(1, SIGKILL);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(write(time_of_death[1], &now, sizeof now), ssize_t{sizeof now});
  }
  EXPECT_EQ(ranks.Await(0), 0);
  EXPECT_EQ(ranks.Await(2), 0);
  close(time_of_death[0]), close(time_of_death[1]);
}

TEST_P(Faults, AStoppedRankIsATimeoutAtTheDeadline) {
  Processes ranks(2, [&](TestRank& rank, const Processes::Ready& ready) {
    double cpu_seconds = 0;
    const auto stopping = [&] {
      ready();
      cpu_seconds = CpuSeconds();
    };
    AllReduceUntilTrouble(rank, stopping, 2s, [&](const PeerTrouble& trouble) {
      EXPECT_EQ(trouble.kind(), PeerTrouble::kTimedOut);
      EXPECT_EQ(trouble.ranks(), std::vector<int>{1});
      // It slept for most of the time.
      EXPECT_LT(CpuSeconds() - cpu_seconds, 1.0);
    });
  });
  std::this_thread::sleep_for(100ms);
  const auto start = Clock::now();
  ranks.Signal(1, SIGSTOP);
  EXPECT_EQ(ranks.Await(0), 0);
  // It may have been in the middle of one that had begun before.
  EXPECT_GE(Clock::now() - start, 1500ms);
  EXPECT_LT(Clock::now() - start, 10s);
}

INSTANTIATE_TEST_SUITE_P(Memory, Faults, testing::Values(false, true), [](const auto& info) {
  return std::string(info.param ? "Allocated" : "Own");
});

// More ranks than processors, all of them busy, and they still come through.
TEST(Processes, MayBeMoreThanProcessors) {
  Processes ranks(8, [](TestRank& rank, const Processes::Ready& ready) {
    ready();
    const ops::Memory memory = ops::AllocateMemory(4);
    for (int i = 0; i < 1000; ++i) AllReduce(rank, memory, 1);
  });
  ExpectSuccess(ranks, 8);
}

}  // namespace
}  // namespace ddp
