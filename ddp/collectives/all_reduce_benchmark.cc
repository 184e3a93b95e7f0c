// All-reduce between two ranks that are threads, over TCP on this host, by size.
//
//   bazel run //ddp/collectives:all_reduce_benchmark
//
// `gloo_ring` is Gloo's own ring algorithm over the same kind of connection, to compare with.
#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/store/hash_store.h"
#include "gloo/allreduce.h"
#include "gloo/math.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/hash_store.h"
#include "gloo/transport/tcp/device.h"

namespace ddp {
namespace {

constexpr int kRanks = 2;

// All-reduces `values` of one rank with the other's.
using AllReduce = std::function<void(std::vector<float>& values)>;
using Connect = std::function<AllReduce(int rank)>;

// Rank 0 is measured; rank 1 follows until it is told to stop, by a flag that is itself reduced.
void Measure(benchmark::State& state, const Connect& connect) {
  const int64_t num_elements = state.range(0) / static_cast<int64_t>(sizeof(float));
  std::thread follower([&] {
    const AllReduce all_reduce = connect(1);
    std::vector<float> values(num_elements);
    do {
      all_reduce(values);
    } while (values[0] == 0);
  });
  const AllReduce all_reduce = connect(0);
  std::vector<float> values(num_elements);
  all_reduce(values);
  for (auto _ : state) all_reduce(values);
  values[0] = 1;
  all_reduce(values);
  follower.join();
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void OurGroup(benchmark::State& state) {
  const auto store = std::make_shared<HashStore>();
  Measure(state, [&](int rank) -> AllReduce {
    std::shared_ptr<ProcessGroup> group =
        InitProcessGroup({.rank = rank, .world_size = kRanks, .store = store});
    return [group](std::vector<float>& values) {
      group->AllReduce({values.data(), static_cast<int64_t>(values.size())}, ReduceOp::kSum)
          ->Wait();
    };
  });
}

void GlooRing(benchmark::State& state) {
  gloo::rendezvous::HashStore store;
  Measure(state, [&](int rank) -> AllReduce {
    gloo::transport::tcp::attr attributes("127.0.0.1");
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, kRanks);
    context->connectFullMesh(store, device);
    return [context, tag = 0u](std::vector<float>& values) mutable {
      gloo::AllreduceOptions options(context);
      options.setOutput(values.data(), values.size());
      options.setTag(tag++);
      options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      options.setReduceFunction(
          static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      gloo::allreduce(options);
    };
  });
}

BENCHMARK(OurGroup)->Name("ddp")->RangeMultiplier(4)->Range(4, 64 << 20)->UseRealTime();
BENCHMARK(GlooRing)->Name("gloo_ring")->RangeMultiplier(4)->Range(4, 64 << 20)->UseRealTime();

}  // namespace
}  // namespace ddp
