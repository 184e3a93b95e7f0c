#include "ops/cpu/embedding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "ops/cpu/kernel_testing.h"

namespace ops::cpu {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Tensor Ids(const std::vector<int64_t>& ids) {
  return Tensor::FromVector(ids, {static_cast<int64_t>(ids.size())});
}

Tensor RandomIds(int64_t n, int64_t count) {
  Generator generator(8);
  std::vector<int64_t> ids(n);
  for (int64_t& id : ids) id = static_cast<int64_t>(generator.Below(count));
  return Ids(ids);
}

TEST(GatherRowsTest, EveryDType) {
  for (const DType dtype : kAllDTypes) {
    const Tensor table = Tensor::FromVector<float>({0, 1, 2, 3, 4, 5}, {3, 2}).To(dtype);
    const Tensor out = Misaligned({4, 2}, dtype);
    GatherRows(Ids({2, 0, 2, 1}), table, out);
    EXPECT_THAT(out.ToVector<double>(), ElementsAre(4, 5, 0, 1, 4, 5, 2, 3));
  }
}

TEST(GatherRowsTest, RefusesIdsOutsideTheTable) {
  const Tensor table = Tensor::Zeros({3, 2}), out = Tensor::Empty({2, 2});
  EXPECT_THAT(
      [&] {
        GatherRows(Ids({0, 3}), table, out);
      },
      ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr("id 1 is 3"), HasSubstr("[0, 3)"))));
  EXPECT_THAT(
      [&] {
        GatherRows(Ids({-1, 0}), table, out);
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("id 0 is -1")));
}

// Sums of a few values of size 1, rounded once.
double Tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 1e-14;
    case DType::kFloat32:
      return 1e-5;
    case DType::kFloat16:
      return 1e-2;
    default:
      return 8e-2;
  }
}

void ExpectGradientIsRight(DType dtype, int64_t n, int64_t width, int64_t padding_id) {
  constexpr int64_t kCount = 7;
  const Tensor ids = RandomIds(n, kCount - 1), dy = RandomTensor({n, width}, dtype, 1);
  std::vector<double> expected(kCount * width);
  const std::vector<double> arriving = dy.ToVector<double>();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t id = ids.data<int64_t>()[i];
    for (int64_t j = 0; j < width && id != padding_id; ++j) {
      expected[id * width + j] += arriving[i * width + j];
    }
  }
  const Tensor dtable = Misaligned({kCount, width}, dtype);
  for (const bool accumulate : {false, true}) {
    dtable.Fill(accumulate ? 1 : NAN);
    GatherRowsBackward(ids, padding_id, dy, dtable, accumulate);
    const std::vector<double> got = dtable.ToVector<double>();
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i] + (accumulate ? 1 : 0), Tolerance(dtype)) << i;
    }
  }
}

TEST(GatherRowsBackwardTest, AddsUpRowsOfEqualIds) {
  ForEachIsa([] {
    for (const DType dtype : kFloatingDTypes) {
      for (const int64_t width : kLengths) {
        for (const int64_t n : {0, 1, 40}) {
          ExpectGradientIsRight(dtype, n, width, /*padding_id=*/-1);
          ExpectGradientIsRight(dtype, n, width, /*padding_id=*/2);
        }
      }
    }
  });
}

TEST(GatherRowsBackwardTest, RoundsASumOnce) {
  const Tensor dy = Tensor::Full({256, 1}, 1, {.dtype = DType::kBFloat16});
  const Tensor sum = Tensor::Full({1, 1}, 256, {.dtype = DType::kBFloat16});
  // One by one, no 1 would change 256.
  GatherRowsBackward(Ids(std::vector<int64_t>(256, 0)), -1, dy, sum, /*accumulate=*/true);
  EXPECT_EQ(sum.ToVector<float>()[0], 512);
}

TEST(GatherRowsBackwardTest, AddingLeavesOtherRowsAlone) {
  const Tensor dtable = Tensor::FromVector<float>({NAN, 1, -0.0f}, {3, 1});
  const std::string before = BytesOf(dtable);
  GatherRowsBackward(Ids({1}), -1, Tensor::Zeros({1, 1}), dtable, /*accumulate=*/true);
  EXPECT_EQ(BytesOf(dtable), before);
}

TEST(GatherRowsTest, SameBitsOnThreads) {
  const Tensor ids = RandomIds(2000, 300), table = RandomTensor({300, 257}, DType::kFloat32, 1);
  ExpectSameBitsOnThreads([&] {
    const Tensor out = Tensor::Empty({2000, 257});
    GatherRows(ids, table, out);
    return out;
  });
  const Tensor dy = RandomTensor({2000, 257}, DType::kFloat32, 2);
  ExpectSameBitsOnThreads([&] {
    const Tensor dtable = Tensor::Empty({300, 257});
    GatherRowsBackward(ids, -1, dy, dtable, /*accumulate=*/false);
    return dtable;
  });
}

}  // namespace
}  // namespace ops::cpu
