// Groups beside each other, groups of a part of the ranks, and the memory that groups give.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/collectives/testing.h"
#include "ddp/observer.h"

namespace ddp {
namespace {

using testing::Each;
using testing::ElementsAre;

class GroupsTest : public GroupTest {};

INSTANTIATE_TEST_SUITE_P(All, GroupsTest, testing::ValuesIn(AllSettings({1, 2, 3, 4})),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(GroupsTest, SubgroupsWorkSideBySide) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    // Odd and even ranks, the last first.
    const auto half = group.Split(rank.rank() % 2, -rank.rank());
    const int half_size = (size() + 1 - rank.rank() % 2) / 2;
    ASSERT_EQ(half->size(), half_size);
    EXPECT_EQ(half->rank(), half_size - 1 - rank.rank() / 2);
    std::vector<float> ours(1000, 1), all(1000, 1);
    const auto in_half = half->AllReduce(BufferOfVector(ours), ReduceOp::kSum);
    group.AllReduce(BufferOfVector(all), ReduceOp::kSum)->Wait();
    in_half->Wait();
    EXPECT_THAT(ours, Each(static_cast<float>(half_size)));
    EXPECT_THAT(all, Each(static_cast<float>(size())));

    // Its own order is kept.
    const auto pair =
        group.NewGroup(size() == 1 ? std::vector<int>{0} : std::vector<int>{size() - 1, 0});
    ASSERT_EQ(pair != nullptr, rank.rank() == 0 || rank.rank() == size() - 1);
    if (pair == nullptr) return;
    std::vector<int32_t> value{rank.rank()};
    pair->Broadcast(BufferOfVector(value), 0)->Wait();
    EXPECT_THAT(value, ElementsAre(size() - 1));
  });
}

// Two groups, used in another order on each rank.
TEST_P(GroupsTest, GroupsAreIndependent) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    const auto other = group.Split(0);
    for (int round = 0; round < 20; ++round) {
      std::vector<float> a(5000, 1), b(5000, 2);
      ProcessGroup& first = rank.rank() % 2 == 0 ? group : *other;
      ProcessGroup& second = rank.rank() % 2 == 0 ? *other : group;
      const auto one = first.AllReduce(BufferOfVector(&first == &group ? a : b), ReduceOp::kSum);
      const auto two = second.AllReduce(BufferOfVector(&second == &group ? a : b), ReduceOp::kSum);
      two->Wait();
      one->Wait();
      EXPECT_THAT(a, Each(static_cast<float>(size())));
      EXPECT_THAT(b, Each(static_cast<float>(2 * size())));
    }
  });
}

TEST_P(GroupsTest, TensorsAndAllocatedMemory) {
  Run([&](TestRank& rank, ProcessGroup&) {
    std::shared_ptr<std::byte> memory;
    {
      const auto group = rank.Join(GetParam());
      memory = group->Allocate(4 * sizeof(float), ops::Device::Cpu());
      const ops::Tensor tensor = ops::Tensor::Wrap(memory, {4});
      tensor.Fill(rank.rank() + 1);
      group->AllReduce(BufferOf(tensor), ReduceOp::kAverage)->Wait();
      EXPECT_THAT(tensor.ToVector<float>(), Each((size() + 1) / 2.0f));
    }
    EXPECT_EQ(*reinterpret_cast<float*>(memory.get()), (size() + 1) / 2.0f);  // outlives the group
  });
}

// Regions come and go while peers hold on to theirs.
TEST_P(GroupsTest, AllocatedMemoryComesAndGoes) {
  Run([&](TestRank& rank, ProcessGroup& group) {
    std::mt19937 random(3);
    std::vector<std::pair<ops::Memory, int64_t>> regions;
    for (int round = 0; round < 60; ++round) {
      rank.Note(fmt::format("round {}", round));
      if (regions.size() > 3) regions.erase(regions.begin() + random() % regions.size());
      const int64_t num_elements = 1 + random() % 100'000;
      regions.emplace_back(group.Allocate(num_elements * 4, ops::Device::Cpu()), num_elements);
      const auto& [memory, size_of_chosen] = regions[random() % regions.size()];
      float* const values = reinterpret_cast<float*>(memory.get());
      std::fill(values, values + size_of_chosen, static_cast<float>(rank.rank() + round));
      group.AllReduce({values, size_of_chosen}, ReduceOp::kSum)->Wait();
      const float expected = static_cast<float>(size() * (size() - 1) / 2 + round * size());
      EXPECT_TRUE(std::all_of(values, values + size_of_chosen,
                              [=](float value) { return value == expected; }));
    }
  });
}

TEST_P(GroupsTest, AnObserverHearsOfEachOperation) {
  struct Noting : Observer {
    void OnIssued(const CollectiveReport& report) override { Note("issued", report); }
    void OnStarted(const CollectiveReport& report) override { Note("started", report); }
    void OnEnded(const CollectiveReport& report) override {
      Note(report.failed ? "failed" : "ended", report);
      EXPECT_LE(report.issued, report.started);
      EXPECT_LE(report.started, report.ended);
    }
    void Note(const char* what, const CollectiveReport& report) {
      if (report.kind == OperationKind::kJoin) return;
      std::lock_guard lock(mutex);
      notes.push_back(fmt::format("{} {} {} #{} {}", report.group, what, Name(report.kind),
                                  report.sequence_number, report.num_bytes));
    }
    std::mutex mutex;
    std::vector<std::string> notes;
  };
  RunRanks(size(), [&](TestRank& rank) {
    Noting observer;
    {
      const auto group = rank.Join(GetParam(), {.observer = &observer});
      std::vector<float> values(5);
      group->AllReduce(BufferOfVector(values), ReduceOp::kSum)->Wait();
      group->Split(/*color=*/0)->Barrier()->Wait();
    }
    const std::string part = observer.notes.back().substr(0, observer.notes.back().find(' '));
    EXPECT_THAT(observer.notes, testing::IsSupersetOf(
                                    {std::string("world issued all_reduce #1 20"),
                                     std::string("world started all_reduce #1 20"),
                                     std::string("world ended all_reduce #1 20"),
                                     part + " issued barrier #1 0", part + " ended barrier #1 0"}));
    EXPECT_NE(part, "world");
  });
}

}  // namespace
}  // namespace ddp
