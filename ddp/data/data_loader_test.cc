#include "ddp/data/data_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ddp {
namespace {

using ops::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

// Example i has input [i] and target i. Throws for examples that are `bad`.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size, int64_t bad = -1) : size_(size), bad_(bad) {}
  int64_t size() const override { return size_; }
  Example Get(int64_t index) const override {
    CheckIndices({&index, 1});
    if (index == bad_) throw std::runtime_error("example " + std::to_string(index) + " is bad");
    const Tensor input = Tensor::FromVector<int64_t>({index}, {1});
    return {input, input.View({})};
  }

 private:
  int64_t size_, bad_;
};

using Values = std::vector<int64_t>;

Values ValuesOf(const Batch& batch) {
  EXPECT_EQ(batch.inputs.ToVector<int64_t>(), batch.targets.ToVector<int64_t>());
  return batch.targets.ToVector<int64_t>();
}

std::vector<Values> OneEpoch(DataLoader& loader) {
  std::vector<Values> batches;
  for (const Batch& batch : loader) batches.push_back(ValuesOf(batch));
  return batches;
}

template <class Error, class F>
std::string MessageOf(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// How many batches are made ahead must not change what comes.
class DataLoaderTest : public testing::TestWithParam<int> {
 protected:
  DataLoaderOptions Options(int64_t batch_size) const {
    return {.batch_size = batch_size, .prefetch_batches = GetParam()};
  }
};

INSTANTIATE_TEST_SUITE_P(PrefetchBatches, DataLoaderTest, testing::Values(0, 1, 2, 8));

TEST_P(DataLoaderTest, GivesTheSamplersOrderEpochAfterEpoch) {
  const Numbers dataset(103);
  const DistributedSampler sampler(103, {.rank = 1, .world_size = 2, .seed = 9});
  DataLoader loader(dataset, sampler, Options(10));
  EXPECT_EQ(loader.num_batches(), 6);
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    const Values order = sampler.Indices(epoch);
    const std::vector<Values> batches = OneEpoch(loader);
    EXPECT_EQ(loader.epoch(), epoch);
    ASSERT_EQ(batches.size(), 6u);
    Values joined;
    for (const Values& batch : batches) joined.insert(joined.end(), batch.begin(), batch.end());
    EXPECT_EQ(joined, order);
    EXPECT_EQ(batches[0].size(), 10u);
    EXPECT_EQ(batches[5].size(), 2u);
  }
}

TEST_P(DataLoaderTest, EpochsAdvanceByThemselves) {
  const Numbers dataset(40);
  DataLoader loader(dataset, DistributedSampler(40), Options(40));
  const auto first = OneEpoch(loader), second = OneEpoch(loader), third = OneEpoch(loader);
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(second, third);
}

TEST_P(DataLoaderTest, DropsTheSmallBatchWhenAsked) {
  const Numbers dataset(10);
  DataLoaderOptions options = Options(4);
  options.drop_last = true;
  DataLoader loader(dataset, DistributedSampler(10, {.shuffle = false}), options);
  EXPECT_EQ(loader.num_batches(), 2);
  EXPECT_THAT(OneEpoch(loader), ElementsAre(Values{0, 1, 2, 3}, Values{4, 5, 6, 7}));
}

TEST_P(DataLoaderTest, NextEndsAnEpochAndStartsTheNext) {
  const Numbers dataset(3);
  DataLoaderOptions options = Options(2);
  options.first_epoch = 7;
  DataLoader loader(dataset, DistributedSampler(3, {.shuffle = false}), options);
  EXPECT_EQ(loader.epoch(), 7);
  for (int64_t epoch : {7, 8}) {
    EXPECT_EQ(ValuesOf(*loader.Next()), (Values{0, 1}));
    EXPECT_EQ(loader.epoch(), epoch);
    EXPECT_EQ(ValuesOf(*loader.Next()), (Values{2}));
    EXPECT_EQ(loader.Next(), std::nullopt);
    EXPECT_EQ(loader.epoch(), epoch);
  }
}

TEST_P(DataLoaderTest, ALoopThatIsLeftEarlyLeavesOutTheRest) {
  const Numbers dataset(5000);
  const DistributedSampler sampler(5000, {.seed = 1});
  DataLoader loader(dataset, sampler, Options(2));
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    const Values order = sampler.Indices(epoch);
    int64_t at = 0;
    for (const Batch& batch : loader) {
      EXPECT_EQ(ValuesOf(batch), (Values{order[at], order[at + 1]}));
      at += 2;
      if (at == 20 * epoch) break;
    }
    EXPECT_EQ(loader.epoch(), epoch);
  }
}

TEST_P(DataLoaderTest, AnExceptionArrivesAtItsBatch) {
  const Numbers dataset(10, /*bad=*/5);
  DataLoader loader(dataset, DistributedSampler(10, {.shuffle = false}), Options(2));
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(ValuesOf(*loader.Next()), (Values{0, 1}));
    EXPECT_EQ(ValuesOf(*loader.Next()), (Values{2, 3}));
    EXPECT_EQ(MessageOf<std::runtime_error>([&] { loader.Next(); }), "example 5 is bad");
    EXPECT_EQ(ValuesOf(*loader.Next()), (Values{6, 7}));
    EXPECT_EQ(ValuesOf(*loader.Next()), (Values{8, 9}));
    EXPECT_EQ(loader.Next(), std::nullopt);
  }
}

TEST_P(DataLoaderTest, CollatesAsTheUserSays) {
  const Numbers dataset(4);
  DataLoaderOptions options = Options(2);
  options.collate = [](std::span<const Example> examples) {
    Batch batch = Stack(examples);
    batch.targets = Tensor();  // a batch need not have all parts
    return batch;
  };
  DataLoader loader(dataset, DistributedSampler(4, {.shuffle = false}), options);
  const Batch batch = *loader.Next();
  EXPECT_THAT(batch.inputs.ToVector<int64_t>(), ElementsAre(0, 1));
  EXPECT_FALSE(batch.targets.defined());
}

TEST_P(DataLoaderTest, EndsAtAnyTime) {
  const Numbers dataset(1000);
  for (int taken = 0; taken < 50; ++taken) {
    DataLoader loader(dataset, DistributedSampler(1000), Options(7));
    for (int i = 0; i < taken; ++i) loader.Next();
  }
}

TEST_P(DataLoaderTest, ARankWithoutExamplesHasNoBatches) {
  const Numbers dataset(1);
  const DistributedSampler sampler(
      1, {.rank = 1, .world_size = 2, .uneven = DistributedSamplerOptions::Uneven::kExact});
  DataLoader loader(dataset, sampler, Options(4));
  EXPECT_EQ(loader.num_batches(), 0);
  EXPECT_TRUE(OneEpoch(loader).empty());
  EXPECT_TRUE(OneEpoch(loader).empty());
  EXPECT_EQ(loader.epoch(), 1);
}

TEST_P(DataLoaderTest, GoesOnWithAnEpochThatWasBegun) {
  const Numbers dataset(103);
  const DistributedSampler sampler(103, {.rank = 1, .world_size = 2, .seed = 9});
  DataLoader whole(dataset, sampler, Options(10));
  for (int i = 0; i < 6 + 2; ++i) whole.Next();  // with the end of the first epoch
  DataLoaderOptions options = Options(10);
  options.first_epoch = 1;
  options.first_epoch_consumed = 20;
  DataLoader rest(dataset, sampler, options);
  EXPECT_EQ(rest.num_batches(), 6);
  EXPECT_EQ(rest.num_batches(1), 5);
  EXPECT_EQ(rest.num_batches(2), 6);
  for (int i = 0; i < 5 + 1 + 6; ++i) {
    const std::optional<Batch> expected = whole.Next(), batch = rest.Next();
    ASSERT_EQ(batch.has_value(), expected.has_value()) << i;
    EXPECT_EQ(rest.epoch(), whole.epoch());
    if (!batch) continue;
    EXPECT_EQ(ValuesOf(*batch), ValuesOf(*expected)) << i;
  }
}

TEST_P(DataLoaderTest, TheRestOfAnEpochMayBeNoBatch) {
  const Numbers dataset(10);
  DataLoaderOptions options = Options(4);
  options.drop_last = true;
  options.first_epoch_consumed = 8;
  DataLoader loader(dataset, DistributedSampler(10, {.shuffle = false}), options);
  EXPECT_TRUE(OneEpoch(loader).empty());
  EXPECT_THAT(OneEpoch(loader), ElementsAre(Values{0, 1, 2, 3}, Values{4, 5, 6, 7}));
}

TEST_P(DataLoaderTest, SaysWhatIsWrong) {
  const Numbers dataset(10);
  const auto message = [&](const DistributedSampler& sampler, const DataLoaderOptions& options) {
    return MessageOf<std::invalid_argument>([&] { DataLoader(dataset, sampler, options); });
  };
  const DistributedSampler sampler(10, {.rank = 0, .world_size = 2});
  EXPECT_EQ(message(sampler, Options(0)), "DataLoader: batch_size is 0; at least 1 is needed");
  DataLoaderOptions dropping = Options(6);
  dropping.drop_last = true;
  EXPECT_THAT(message(sampler, dropping),
              HasSubstr("batch_size is 6, but this rank has only 5 examples"));
  EXPECT_EQ(message(DistributedSampler(11), Options(1)),
            "DataLoader: the sampler is for 11 examples, the dataset has 10");
  DataLoaderOptions negative = Options(1);
  negative.first_epoch = -1;
  EXPECT_THAT(message(sampler, negative), HasSubstr("first_epoch (-1)"));
  DataLoaderOptions beyond = Options(1);
  beyond.first_epoch_consumed = 10;
  EXPECT_THAT(message(sampler, beyond), HasSubstr("10 examples of an epoch of 10"));
}

// Waits in GetBatch until it is let through, and counts the calls.
class Gate : public Dataset {
 public:
  int64_t size() const override { return 100; }
  Example Get(int64_t) const override { return {}; }
  Batch GetBatch(std::span<const int64_t>) const override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return allowed_ > 0; });
    --allowed_;
    ++made_;
    changed_.notify_all();
    // Larger than a group.
    return {Tensor::Empty({100'000}), Tensor::Empty({100'000})};
  }
  void Allow(int count) const {
    std::lock_guard lock(mutex_);
    allowed_ += count;
    changed_.notify_all();
  }
  void AwaitMade(int count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return made_ >= count; });
  }
  int made() const {
    std::lock_guard lock(mutex_);
    return made_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  mutable int allowed_ = 0;
  mutable int made_ = 0;
};

TEST(DataLoaderPrefetchTest, WorksAheadAsFarAsAsked) {
  const Gate gate;
  DataLoader loader(gate, DistributedSampler(100), {.batch_size = 1, .prefetch_batches = 3});
  gate.Allow(100);
  gate.AwaitMade(3);  // without anyone asking
  for (int i = 0; i < 10; ++i) {
    loader.Next();
    EXPECT_LE(gate.made(), i + 1 + 3);
  }
}

TEST(DataLoaderPrefetchTest, WithoutAThreadAllMakingIsWaiting) {
  const Numbers dataset(10);
  DataLoader loader(dataset, DistributedSampler(10), {.batch_size = 1, .prefetch_batches = 0});
  EXPECT_EQ(loader.wait_seconds(), 0);
  loader.Next();
  EXPECT_GT(loader.wait_seconds(), 0);
}

// As a file system that has stopped answering.
class Stalling : public Numbers {
 public:
  Stalling(int64_t size, int64_t stalls_at) : Numbers(size), stalls_at_(stalls_at) {}
  Example Get(int64_t index) const override {
    if (index == stalls_at_) resumed_.wait(false);
    return Numbers::Get(index);
  }
  void Resume() {
    resumed_ = true;
    resumed_.notify_all();
  }

 private:
  const int64_t stalls_at_;
  mutable std::atomic<bool> resumed_ = false;
};

TEST(StalledLoaderTest, AWaitThatIsLimitedEnds) {
  Stalling numbers(6, /*stalls_at=*/0);
  DataLoader loader(numbers, DistributedSampler(6, {.shuffle = false}), {.batch_size = 2});
  std::thread limits([&] { loader.LimitWaits(std::chrono::milliseconds(50)); });  // at any moment
  EXPECT_THAT(MessageOf<DataStalledError>([&] { loader.Next(); }),
              HasSubstr("batch 0 of epoch 0 did not come within 0.05 s"));
  limits.join();
  numbers.Resume();
  loader.LimitWaits(kDefaultTimeout);
  EXPECT_EQ(ValuesOf(*loader.Next()), (Values{0, 1}));  // none is lost
}

}  // namespace
}  // namespace ddp
