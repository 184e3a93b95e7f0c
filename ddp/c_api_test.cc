// The C interface, by ranks as threads: right values, statuses and messages.
#include "ddp/c_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "ddp/store/socket.h"

namespace {

using testing::Each;
using testing::HasSubstr;

// Calls `body` on two ranks, each with a group.
void RunPair(const std::function<void(int rank, ddp_group* group)>& body) {
  const int port = ddp::FreePort("127.0.0.1");
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ddp_group* group = nullptr;
      ASSERT_EQ(ddp_group_create("127.0.0.1", port, rank, 2, "auto", 60, &group), DDP_OK)
          << ddp_last_error();
      body(rank, group);
      EXPECT_EQ(ddp_group_destroy(group), DDP_OK);
    });
  }
}

TEST(CApiTest, Collectives) {
  RunPair([](int rank, ddp_group* group) {
    int own = -1, size = -1;
    EXPECT_EQ(ddp_group_rank(group, &own), DDP_OK);
    EXPECT_EQ(ddp_group_size(group, &size), DDP_OK);
    EXPECT_EQ(own, rank);
    EXPECT_EQ(size, 2);

    std::vector<double> values(100, rank + 1);
    EXPECT_EQ(ddp_all_reduce(group, values.data(), 100, DDP_FLOAT64, DDP_SUM), DDP_OK);
    EXPECT_THAT(values, Each(3));
    std::vector<int32_t> numbers(5, rank + 7);
    EXPECT_EQ(ddp_all_reduce(group, numbers.data(), 5, DDP_INT32, DDP_MAX), DDP_OK);
    EXPECT_THAT(numbers, Each(8));
    EXPECT_EQ(ddp_broadcast(group, values.data(), 100, DDP_FLOAT64, 1), DDP_OK);
    EXPECT_EQ(ddp_barrier(group), DDP_OK);
  });
}

TEST(CApiTest, AveragesArraysOfTheCallerAndOfItsOwn) {
  RunPair([](int rank, ddp_group* group) {
    std::vector<float> a(10);
    const ddp_array arrays[] = {{"a", a.data(), 10, DDP_FLOAT32}, {"b", nullptr, 3, DDP_FLOAT32}};
    ddp_averager* averager = nullptr;
    ASSERT_EQ(ddp_averager_create(group, arrays, 2, 0, &averager), DDP_OK) << ddp_last_error();
    void* data = nullptr;
    ASSERT_EQ(ddp_averager_data(averager, 1, &data), DDP_OK);
    float* b = static_cast<float*>(data);
    for (int step = 0; step < 2; ++step) {
      a.assign(10, rank + step);
      std::fill(b, b + 3, 4.0f * rank);
      EXPECT_EQ(ddp_averager_ready(averager, 1), DDP_OK);
      EXPECT_EQ(ddp_averager_ready(averager, 0), DDP_OK);
      EXPECT_EQ(ddp_averager_wait(averager), DDP_OK);
      EXPECT_THAT(a, Each(step + 0.5f));
      EXPECT_THAT(std::vector<float>(b, b + 3), Each(2));
    }

    EXPECT_EQ(ddp_averager_ready(averager, 0), DDP_OK);
    EXPECT_EQ(ddp_averager_ready(averager, 0), DDP_WRONG_STATE);
    EXPECT_STREQ(ddp_last_error(), "array 'a' is ready twice in one round");
    EXPECT_EQ(ddp_averager_wait(averager), DDP_WRONG_STATE);
    EXPECT_THAT(ddp_last_error(), HasSubstr("rank 0: 'b'; rank 1: 'b'"));
    EXPECT_EQ(ddp_averager_destroy(averager), DDP_OK);
  });
}

TEST(CApiTest, RanksThatDiffer) {
  RunPair([](int rank, ddp_group* group) {
    const ddp_array array = {"a", nullptr, 3 + rank, DDP_FLOAT32};
    ddp_averager* averager = nullptr;
    EXPECT_EQ(ddp_averager_create(group, &array, 1, 0, &averager), DDP_MISMATCH);
    EXPECT_THAT(ddp_last_error(), HasSubstr("rank 1 has array 'a' float32[4]"));
    EXPECT_EQ(averager, nullptr);
  });
}

TEST(CApiTest, ArgumentsThatMakeNoSense) {
  RunPair([](int, ddp_group* group) {
    float value = 0;
    EXPECT_EQ(ddp_all_reduce(group, &value, 1, 99, DDP_SUM), DDP_INVALID_ARGUMENT);
    EXPECT_STREQ(ddp_last_error(), "dtype is 99: expected 0 to 6");
    EXPECT_EQ(ddp_all_reduce(group, &value, 1, DDP_FLOAT32, -1), DDP_INVALID_ARGUMENT);
    EXPECT_EQ(ddp_all_reduce(group, nullptr, 1, DDP_FLOAT32, DDP_SUM), DDP_INVALID_ARGUMENT);
    EXPECT_EQ(ddp_broadcast(group, &value, 1, DDP_FLOAT32, 2), DDP_INVALID_ARGUMENT);
    EXPECT_EQ(ddp_group_rank(group, nullptr), DDP_INVALID_ARGUMENT);
    EXPECT_STREQ(ddp_last_error(), "rank is NULL");
    EXPECT_EQ(ddp_averager_create(group, nullptr, 1, 0, nullptr), DDP_INVALID_ARGUMENT);
  });
  ddp_group* group = nullptr;
  EXPECT_EQ(ddp_group_create("127.0.0.1", 1, 2, 2, "auto", 1, &group), DDP_INVALID_ARGUMENT);
  EXPECT_STREQ(ddp_last_error(), "rank is 2: expected 0 to 1");
  EXPECT_EQ(ddp_group_create("127.0.0.1", 1, 0, 2, "auto", -1, &group), DDP_INVALID_ARGUMENT);
  EXPECT_EQ(ddp_barrier(nullptr), DDP_INVALID_ARGUMENT);
  EXPECT_EQ(ddp_group_destroy(nullptr), DDP_OK);
  EXPECT_EQ(ddp_averager_destroy(nullptr), DDP_OK);
}

TEST(CApiTest, AnEnvironmentThatSaysNothing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}) {
    unsetenv(name);
  }
  ddp_group* group = nullptr;
  EXPECT_EQ(ddp_group_create_from_environment("auto", 1, &group), DDP_INVALID_ARGUMENT);
  EXPECT_THAT(ddp_last_error(), HasSubstr("RANK is not set: a rank needs"));
  setenv("WORLD_SIZE", "2x", 1);
  EXPECT_EQ(ddp_group_create_from_environment("auto", 1, &group), DDP_INVALID_ARGUMENT);
  EXPECT_THAT(ddp_last_error(), HasSubstr("WORLD_SIZE=2x: expected the number of ranks"));
}

TEST(CApiTest, WithoutMpiInit) {
  ddp_group* group = nullptr;
  EXPECT_EQ(ddp_group_create_from_mpi(0, "auto", 1, &group), DDP_INVALID_ARGUMENT);
  EXPECT_THAT(ddp_last_error(), HasSubstr("MPI"));
}

// A rank that leaves is noticed by the other.
TEST(CApiTest, ALostPeer) {
  RunPair([](int rank, ddp_group* group) {
    if (rank == 1) return;
    float value = 1;
    const int status = ddp_all_reduce(group, &value, 1, DDP_FLOAT32, DDP_SUM);
    EXPECT_EQ(status, DDP_PEER_LOST) << ddp_last_error();
  });
}

TEST(CApiTest, ErrorsBelongToTheirThread) {
  EXPECT_EQ(ddp_barrier(nullptr), DDP_INVALID_ARGUMENT);
  std::jthread([] { EXPECT_STREQ(ddp_last_error(), ""); }).join();
  EXPECT_STREQ(ddp_last_error(), "the handle is NULL");
  EXPECT_STREQ(ddp_version(), DDP_VERSION);
}

}  // namespace
