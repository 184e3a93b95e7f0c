// For tests of DistributedDataParallel: ranks as threads, each with a model of its own and the
// wrapper around it, over TCP and over the default backend.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "ddp/collectives/testing.h"
#include "ddp/replicated/distributed_data_parallel.h"

namespace ddp {

// For INSTANTIATE_TEST_SUITE_P.
inline auto ReplicatedSettings() {
  return testing::Values(TestSetting{"gloo", 2}, TestSetting{"auto", 2}, TestSetting{"auto", 3},
                         TestSetting{"auto", 4});
}

template <class Model>
class ReplicatedTest : public testing::TestWithParam<TestSetting> {
 protected:
  using Body = std::function<void(int rank, Model& model, DistributedDataParallel& replicated)>;

  int size() const { return GetParam().num_ranks; }
  // Runs `body` on each rank.
  void Run(const DistributedDataParallelOptions& options, const Body& body) {
    RunRanks(size(), [&](TestRank& rank) {
      const auto group = rank.Join(GetParam());
      Model model;
      DistributedDataParallel replicated(model, *group, options);
      body(rank.rank(), model, replicated);
    });
  }
};

}  // namespace ddp
