#include "ddp/collectives/bench/measure.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddp/collectives/bench/report.h"
#include "ddp/collectives/testing.h"

namespace ddp::bench {
namespace {

constexpr OperationKind kAll[] = {OperationKind::kAllReduce, OperationKind::kAllGather,
                                  OperationKind::kReduceScatter, OperationKind::kBroadcast,
                                  OperationKind::kAllToAll};

Plan SmallPlan() {
  return {
      .operations = {std::begin(kAll), std::end(kAll)}, .sizes = {4, 12000, 200000}, .seconds = 0};
}

TEST(Measure, FindsAllRight) {
  for (const ops::DType dtype : {ops::DType::kFloat32, ops::DType::kBFloat16, ops::DType::kUInt8}) {
    RunRanks(3, [&](TestRank& rank) {
      const auto group = rank.Join();
      Plan plan = SmallPlan();
      plan.dtype = dtype;
      plan.direct = dtype == ops::DType::kBFloat16;
      std::vector<Result> results;
      Measure(*group, plan, [&](const Result& result) { results.push_back(result); });
      ASSERT_EQ(results.size(), plan.operations.size() * plan.sizes.size());
      for (const Result& result : results) {
        EXPECT_EQ(result.num_wrong, 0) << Name(result.operation) << " of " << result.num_bytes;
        EXPECT_GT(result.min_seconds, 0);
        EXPECT_GE(result.median_seconds, result.min_seconds);
        EXPECT_GE(result.p90_seconds, result.median_seconds);
      }
    });
  }
}

// Rank 0 of two, in a group whose operations leave all buffers as they are.
class IdleGroup : public ProcessGroup {
 public:
  IdleGroup() : ProcessGroup(0, 2) {}
  std::string_view backend() const override { return "idle"; }
  void MonitoredBarrier(Timeout) override {}
  WorkPtr Coalesce(const std::function<void()>&) override { return nullptr; }
  std::unique_ptr<ProcessGroup> Split(int, int) override { return nullptr; }
  ops::Memory Allocate(int64_t num_bytes, const ops::Device& device) override {
    return ops::AllocateMemory(num_bytes, device);
  }
  void Abort(const std::string&) override {}
  std::string WriteFlightRecord(const std::string&) const override { return ""; }

 private:
  class Done : public Work {
    void Wait() override {}
    bool IsDone() override { return true; }
  };
  WorkPtr Issue(Operation, Timeout) override { return std::make_shared<Done>(); }
};

TEST(Measure, CountsWhatIsWrong) {
  IdleGroup group;
  std::map<OperationKind, int64_t> num_wrong;
  Plan plan = SmallPlan();
  plan.sizes = {4000};  // 1000 elements, checked twice
  Measure(group, plan, [&](const Result& result) {
    EXPECT_EQ(result.num_elements, 1000);
    num_wrong[result.operation] = result.num_wrong;
  });
  EXPECT_EQ(num_wrong[OperationKind::kAllReduce], 2 * 1000);
  EXPECT_EQ(num_wrong[OperationKind::kAllGather], 2 * 1000);
  EXPECT_EQ(num_wrong[OperationKind::kAllToAll], 2 * 1000);
  EXPECT_EQ(num_wrong[OperationKind::kReduceScatter], 2 * 500);
  EXPECT_EQ(num_wrong[OperationKind::kBroadcast], 0);  // the root's values are right as they are
}

TEST(Measure, RoundsSizesToWholeBlocks) {
  IdleGroup group;
  Plan plan = SmallPlan();
  plan.sizes = {1, 4, 15};
  std::map<OperationKind, std::vector<int64_t>> sizes;
  Measure(group, plan,
          [&](const Result& result) { sizes[result.operation].push_back(result.num_bytes); });
  EXPECT_EQ(sizes[OperationKind::kAllReduce], std::vector<int64_t>({4, 4, 12}));
  EXPECT_EQ(sizes[OperationKind::kAllGather], std::vector<int64_t>({8, 8, 8}));
}

TEST(Result, BusBandwidth) {
  Result result = {.num_bytes = 3000, .median_seconds = 2};
  EXPECT_EQ(result.algorithm_bandwidth(), 1500);
  EXPECT_EQ(result.bus_bandwidth(4), 1500 * 2 * 0.75);
  result.operation = OperationKind::kAllGather;
  EXPECT_EQ(result.bus_bandwidth(4), 1500 * 0.75);
  result.operation = OperationKind::kBroadcast;
  EXPECT_EQ(result.bus_bandwidth(4), 1500);
}

TEST(Report, TableAndJson) {
  const Plan plan;
  const Setting setting = {"shm", 2};
  const Result result = {.num_bytes = 4096,
                         .num_elements = 1024,
                         .num_runs = 7,
                         .median_seconds = 2e-6,
                         .min_seconds = 1e-6,
                         .p90_seconds = 3e-6,
                         .cpu_seconds = 4e-6,
                         .num_wrong = 5};
  EXPECT_EQ(TableHeader(setting, plan, result.operation) + TableRow(plan, setting, result),
            "# all_reduce: shm, 2 ranks, staged buffers\n"
            "#       size        count      type    redop         time     algbw     busbw         "
            " cpu   #wrong\n"
            "#        (B)   (elements)                            (us)    (GB/s)    (GB/s)         "
            "(us)         \n"
            "        4096         1024   float32      sum         2.00     2.048     2.048         "
            "4.00        5\n");
  const auto json = nlohmann::json::parse(JsonLine(plan, setting, result));
  EXPECT_EQ(json["backend"], "shm");
  EXPECT_EQ(json["bytes"], 4096);
  EXPECT_DOUBLE_EQ(json["us_median"], 2);
  EXPECT_DOUBLE_EQ(json["us_cpu_all_ranks"], 4);
  EXPECT_EQ(json["wrong"], 5);
}

}  // namespace
}  // namespace ddp::bench
