// Ranks as processes, one of which is killed or stopped in the middle of large all-reduces: the
// others are told which, soon, and then rest; nothing stays behind.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/collectives/testing.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kVictim = 1;
constexpr int64_t kElements = 16 << 20;  // 64 MiB
constexpr Duration kTimeout = 4s;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return time.tv_sec + 1e-6 * time.tv_usec; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The program of a rank: all-reduces until that fails, says "CLASS: MESSAGE", and how busy it is
// afterwards.
int RunRank(const TestSetting& setting, int rank, int port, bool direct) {
  const auto store = std::make_shared<TcpStore>("127.0.0.1", port);
  const auto group = InitProcessGroup({.backend = setting.backend,
                                       .rank = rank,
                                       .world_size = setting.num_ranks,
                                       .store = store,
                                       .timeout = kTimeout,
                                       .interface = "lo",
                                       .host = fmt::format("host{}", setting.HostOf(rank))});
  const ops::Memory memory = direct ? group->Allocate(kElements * 4, ops::Device::Cpu())
                                    : ops::AllocateMemory(kElements * 4);
  try {
    for (int round = 0;; ++round) {
      group->AllReduce({memory.get(), kElements}, ReduceOp::kMax)->Wait();
      if (round == 1) fmt::print("working\n");
      std::fflush(stdout);
    }
  } catch (const PeerLostError& error) {
    fmt::print("lost {}: {}\n", error.peer(), error.what());
  } catch (const TimeoutError& error) {
    fmt::print("timeout: {}\n", error.what());
  } catch (const std::exception& error) {
    fmt::print("another error: {}\n", error.what());
  }
  std::fflush(stdout);
  const double before = CpuSeconds();
  std::this_thread::sleep_for(500ms);
  fmt::print("{}\n", CpuSeconds() - before < 0.1 ? "idle" : "busy");
  return 0;
}

// A rank's process, and what it prints.
class RankProcess {
 public:
  RankProcess(const TestSetting& setting, int rank, int port, bool direct) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    std::vector<std::string> words{"/proc/self/exe",
                                   "--rank",
                                   setting.backend,
                                   std::to_string(setting.num_ranks),
                                   std::to_string(setting.num_hosts),
                                   std::to_string(rank),
                                   std::to_string(port),
                                   direct ? "direct" : "staged"};
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    EXPECT_EQ(posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(), environ),
              0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~RankProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    std::fclose(output_);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void Signal(int signal) { kill(pid_, signal); }
  // Without its end; "" when there are no more.
  std::string ReadLine() {
    char line[4096] = "";
    if (std::fgets(line, sizeof line, output_) == nullptr) return "";
    return std::string(line).substr(0, std::string(line).find('\n'));
  }

 private:
  pid_t pid_ = 0;
  FILE* output_ = nullptr;
};

// Without those of Open MPI, whose programs may run at the same time.
std::set<std::string> FilesInSharedMemory() {
  std::set<std::string> names;
  DIR* const folder = opendir("/dev/shm");
  while (const dirent* const entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (!name.starts_with("vader_segment.")) names.insert(name);
  }
  closedir(folder);
  return names;
}

class ProcessFailuresTest : public testing::TestWithParam<std::tuple<TestSetting, bool>> {
 protected:
  // Starts all ranks, sends `signal` to the victim while they work, and returns what the survivors
  // say.
  std::vector<std::string> Survivors(int signal) {
    const auto& [setting, direct] = GetParam();
    const std::set<std::string> files = FilesInSharedMemory();
    std::vector<std::string> said;
    {
      TcpStoreServer server;
      std::vector<std::unique_ptr<RankProcess>> ranks;
      for (int rank = 0; rank < setting.num_ranks; ++rank) {
        ranks.push_back(std::make_unique<RankProcess>(setting, rank, server.port(), direct));
      }
      for (const auto& rank : ranks) EXPECT_EQ(rank->ReadLine(), "working");
      std::this_thread::sleep_for(73ms);
      ranks[kVictim]->Signal(signal);
      const auto start = Clock::now();
      for (int rank = 0; rank < setting.num_ranks; ++rank) {
        if (rank == kVictim) continue;
        said.push_back(ranks[rank]->ReadLine());
        fmt::print("after {}: {}\n", FormatSeconds(Clock::now() - start), said.back());
        EXPECT_EQ(ranks[rank]->ReadLine(), "idle");
      }
    }
    EXPECT_EQ(FilesInSharedMemory(), files);
    return said;
  }
};

TEST_P(ProcessFailuresTest, AKilledRankIsNamed) {
  EXPECT_THAT(Survivors(SIGKILL),
              testing::Each(AllOf(HasSubstr("lost 1: rank "), HasSubstr("all_reduce #"),
                                  HasSubstr("lost rank 1: "))));
}

TEST_P(ProcessFailuresTest, AStoppedRankRunsIntoTheDeadline) {
  EXPECT_THAT(Survivors(SIGSTOP), testing::Each(AllOf(HasSubstr("timeout: rank "),
                                                      HasSubstr("waited 4 s for rank 1"))));
}

INSTANTIATE_TEST_SUITE_P(All, ProcessFailuresTest,
                         testing::Combine(testing::Values(TestSetting{"shm", 3},
                                                          TestSetting{"gloo", 3},
                                                          TestSetting{"auto", 4, 2}),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::get<TestSetting>(info.param).Name() +
                                  (std::get<bool>(info.param) ? "Direct" : "Staged");
                         });

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  if (argc == 8 && std::string(argv[1]) == "--rank") {
    const ddp::TestSetting setting{argv[2], std::atoi(argv[3]), std::atoi(argv[4])};
    return ddp::RunRank(setting, std::atoi(argv[5]), std::atoi(argv[6]),
                        std::string(argv[7]) == "direct");
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
