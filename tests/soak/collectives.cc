// Groups that come and go, and all-reduces of all sizes: every sum is right, and memory,
// descriptors and threads stay what they were.
//
//   bazel run //tests/soak:collectives                        2000 all-reduces, 500 groups
//   bazel run //tests/soak:collectives -- 100000 5000
//
// `bazel test //...` runs a small sample. Ranks are threads; the sizes come from a seed.
#include <dirent.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <random>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/collectives/testing.h"

namespace ddp {
namespace {

int num_all_reduces = 2000;
int num_groups = 500;

int CountEntries(const char* folder) {
  DIR* const entries = opendir(folder);
  int count = 0;
  while (readdir(entries) != nullptr) ++count;
  closedir(entries);
  return count;
}

struct Resources {
  int descriptors = CountEntries("/proc/self/fd");
  int threads = CountEntries("/proc/self/task");
  int64_t resident_bytes = 0;

  Resources() {
    int64_t total_pages = 0, resident_pages = 0;
    std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
    resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  }
};

void ExpectFlat(const Resources& before, const Resources& after) {
  fmt::print("descriptors {} -> {}, threads {} -> {}, memory {} -> {} KiB\n", before.descriptors,
             after.descriptors, before.threads, after.threads, before.resident_bytes >> 10,
             after.resident_bytes >> 10);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_LT(after.resident_bytes, before.resident_bytes + (8 << 20));
}

class SoakTest : public testing::TestWithParam<TestSetting> {};

INSTANTIATE_TEST_SUITE_P(All, SoakTest,
                         testing::Values(TestSetting{"shm", 3}, TestSetting{"gloo", 3},
                                         TestSetting{"auto", 4, 2}),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(SoakTest, AllReducesOfRandomSizes) {
  constexpr int64_t kMostElements = 300'000;
  const int size = GetParam().num_ranks;
  RunRanks(
      size,
      [&](TestRank& rank) {
        const auto group = rank.Join(GetParam());
        const ops::Memory direct = group->Allocate(kMostElements * 4, ops::Device::Cpu());
        std::vector<float> staged(kMostElements);
        std::mt19937 random(5);  // the same sizes on every rank
        std::optional<Resources> before;
        for (int i = 0; i < num_all_reduces; ++i) {
          rank.Note(fmt::format("all-reduce {}", i));
          if (i == num_all_reduces / 4) {
            group->Barrier()->Wait();
            if (rank.rank() == 0) before.emplace();
            group->Barrier()->Wait();
          }
          // Small ones are as likely as large ones.
          const int64_t num_elements = random() % (int64_t{1} << (random() % 19));
          float* const values =
              random() % 2 == 0 ? reinterpret_cast<float*>(direct.get()) : staged.data();
          std::fill(values, values + num_elements, static_cast<float>(rank.rank() + i % 100));
          group->AllReduce({values, num_elements}, ReduceOp::kSum)->Wait();
          const auto expected = static_cast<float>(size * (size - 1) / 2 + i % 100 * size);
          ASSERT_TRUE(std::all_of(values, values + num_elements,
                                  [=](float value) { return value == expected; }));
        }
        group->Barrier()->Wait();
        if (rank.rank() == 0) ExpectFlat(*before, Resources());
        group->Barrier()->Wait();
      },
      std::chrono::hours(10));
}

TEST_P(SoakTest, GroupsComeAndGo) {
  const auto cycle = [&](int count) {
    RunRanks(
        GetParam().num_ranks,
        [&](TestRank& rank) {
          for (int i = 0; i < count; ++i) {
            rank.Note(fmt::format("group {}", i));
            const auto group = rank.Join(GetParam());
            const ops::Memory memory = group->Allocate(1 << 18, ops::Device::Cpu());
            group->AllReduce({memory.get(), 1 << 16}, ReduceOp::kMax)->Wait();
            const auto half = group->Split(rank.rank() % 2);
            half->Barrier()->Wait();
          }
        },
        std::chrono::hours(10));
  };
  cycle(num_groups / 5 + 1);
  const Resources before;
  cycle(num_groups);
  ExpectFlat(before, Resources());
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc > 1) ddp::num_all_reduces = std::atoi(argv[1]);
  if (argc > 2) ddp::num_groups = std::atoi(argv[2]);
  return RUN_ALL_TESTS();
}
