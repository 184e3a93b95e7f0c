#include "ops/tensor/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace ops {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ShapeTest, Extents) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.num_elements(), 30);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape.dim(-1), 5);
  EXPECT_EQ(shape.dim(-3), 2);
  EXPECT_THAT(shape.dims(), ElementsAre(2, 3, 5));
  EXPECT_EQ(shape.ToString(), "[2, 3, 5]");
}

TEST(ShapeTest, ScalarAndEmpty) {
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape{}.ToString(), "[]");
  EXPECT_EQ((Shape{3, 0, 2}.num_elements()), 0);
}

TEST(ShapeTest, EqualityIsOfRankAndExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE((Shape{0}), Shape{});
}

TEST(ShapeTest, PrependAndDropFirst) {
  EXPECT_EQ((Shape{2, 3}.Prepend(7)), (Shape{7, 2, 3}));
  EXPECT_EQ((Shape{7, 2, 3}.DropFirst()), (Shape{2, 3}));
  EXPECT_EQ(Shape{}.Prepend(4), Shape{4});
  EXPECT_EQ(Shape{4}.DropFirst(), Shape{});
}

TEST(ShapeTest, RefusesWhatIsNoShape) {
  EXPECT_THAT([] { Shape({2, -1}); }, ThrowsMessage<std::invalid_argument>(HasSubstr("[2, -1]")));
  EXPECT_THAT(
      [] {
        Shape({1, 1, 1, 1, 1, 1, 9});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("at most 6")));
  EXPECT_THAT(
      [] {
        Shape({1, 1, 1, 1, 1, 1}).Prepend(2);
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("at most 6")));
}

TEST(ShapeTest, RefusesMoreElementsThanCanBeCounted) {
  const int64_t many = int64_t{1} << 40;
  EXPECT_THAT(
      [&] {
        Shape({many, many});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("2^59")));
  EXPECT_THAT(
      [&] {
        Shape({many, many, 0});
      },
      ThrowsMessage<std::invalid_argument>(HasSubstr("2^59")));
  EXPECT_EQ(Shape{Shape::kMaxElements}.num_elements(), Shape::kMaxElements);
}

TEST(BroadcastTest, AlignsAtTheInnermostDimension) {
  struct Case {
    Shape a, b, expected;
  };
  const std::vector<Case> cases = {
      {{2, 3}, {2, 3}, {2, 3}}, {{2, 3}, {3}, {2, 3}}, {{2, 1}, {3}, {2, 3}},
      {{}, {4, 5}, {4, 5}},     {{1}, {}, {1}},        {{4, 1, 3}, {2, 1}, {4, 2, 3}},
      {{0, 3}, {1, 3}, {0, 3}}, {{1}, {0}, {0}},       {{17, 1}, {1, 17}, {17, 17}},
  };
  for (const auto& [a, b, expected] : cases) {
    EXPECT_EQ(BroadcastShapes("Add", a, b), expected) << a.ToString() << b.ToString();
    EXPECT_EQ(BroadcastShapes("Add", b, a), expected) << a.ToString() << b.ToString();
  }
}

TEST(BroadcastTest, NamesOperationAndBothShapes) {
  for (const Shape& b : {Shape{3, 2}, Shape{4}, Shape{0}}) {
    EXPECT_THAT(
        [&] {
          BroadcastShapes("Multiply", {2, 3}, b);
        },
        ThrowsMessage<std::invalid_argument>(
            AllOf(HasSubstr("Multiply"), HasSubstr("[2, 3]"), HasSubstr(b.ToString()))));
  }
}

}  // namespace
}  // namespace ops
