#include "ddp/c_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ddp/collectives/mpi/mpi_meeting.h"
#include "ddp/collectives/process_group.h"
#include "ddp/duration.h"
#include "ddp/errors.h"
#include "ddp/replicated/gradient_averager.h"
#include "ddp/store/meeting_point.h"

namespace {

using ddp::Duration;
using ddp::ReduceOp;
using ops::DType;

// How long rank 0 keeps the store open for ranks that are not done, or may never be.
constexpr Duration kFarewell = std::chrono::seconds(30);
constexpr Duration kFarewellAfterFailure = std::chrono::seconds(1);

static_assert(DDP_FLOAT32 == int{static_cast<uint8_t>(DType::kFloat32)} &&
              DDP_UINT8 == int{static_cast<uint8_t>(DType::kUInt8)});
static_assert(DDP_SUM == int{static_cast<uint8_t>(ReduceOp::kSum)} &&
              DDP_MAX == int{static_cast<uint8_t>(ReduceOp::kMax)});

thread_local std::string last_error;

int Fail(int status, const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();  // no memory for words
  }
  return status;
}

// Calls `body`, and turns what it throws into a status.
template <class Body>
int Guard(Body body) noexcept {
  try {
    body();
    return DDP_OK;
  } catch (const std::invalid_argument& error) {
    return Fail(DDP_INVALID_ARGUMENT, error.what());
  } catch (const ddp::TimeoutError& error) {
    return Fail(DDP_TIMEOUT, error.what());
  } catch (const ddp::PeerLostError& error) {
    return Fail(DDP_PEER_LOST, error.what());
  } catch (const ddp::MismatchError& error) {
    return Fail(DDP_MISMATCH, error.what());
  } catch (const ddp::CollectiveError& error) {
    return Fail(DDP_COLLECTIVE_ERROR, error.what());
  } catch (const std::logic_error& error) {
    return Fail(DDP_WRONG_STATE, error.what());
  } catch (const std::system_error& error) {
    return Fail(DDP_SYSTEM_ERROR, error.what());
  } catch (const std::bad_alloc& error) {
    return Fail(DDP_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return Fail(DDP_OTHER_ERROR, error.what());
  } catch (...) {
    return Fail(DDP_OTHER_ERROR, "an exception that isn't a std::exception");
  }
}

template <class T>
T& NotNull(T* pointer, const char* name) {
  if (pointer == nullptr) throw std::invalid_argument(fmt::format("{} is NULL", name));
  return *pointer;
}

int InRange(int value, int low, int high, const char* name) {
  if (value < low || value > high) {
    throw std::invalid_argument(fmt::format("{} is {}: expected {} to {}", name, value, low, high));
  }
  return value;
}

Duration TimeoutFrom(double seconds) {
  if (!(seconds >= 0)) {
    throw std::invalid_argument(fmt::format("timeout_seconds is {}: negative", seconds));
  }
  if (seconds == 0) return ddp::kDefaultTimeout;
  constexpr double kYear = 365.0 * 24 * 3600;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(seconds, kYear)));
}

DType DTypeFrom(int dtype) {
  return static_cast<DType>(InRange(dtype, DDP_FLOAT32, DDP_UINT8, "dtype"));
}

// A group and the store that it needs; shared with the group's averagers.
class Member {
 public:
  Member(ddp::MeetingPoint point, const char* backend, Duration timeout)
      : point_(std::move(point)),
        group_(ddp::InitProcessGroup({.backend = backend,
                                      .rank = point_.place().rank,
                                      .world_size = point_.place().world_size,
                                      .store = point_.store(),
                                      .timeout = timeout})) {}
  ~Member() {
    group_.reset();
    point_.Leave(failed_ ? kFarewellAfterFailure : kFarewell);
  }

  ddp::ProcessGroup& group() { return *group_; }

  // The others may be gone: don't wait long for them in the end.
  void set_failed() { failed_ = true; }

 private:
  ddp::MeetingPoint point_;
  std::unique_ptr<ddp::ProcessGroup> group_;
  bool failed_ = false;
};

}  // namespace

struct ddp_group {
  std::shared_ptr<Member> member;
};

struct ddp_averager {
  std::shared_ptr<Member> member;
  ddp::GradientAverager averager;
};

namespace {

// Guard, for what involves the other ranks. `handle` is a group or an averager.
template <class Handle, class Body>
int Run(Handle* handle, Body body) {
  const int status = Guard([&] { body(NotNull(handle, "the handle").member->group()); });
  if (status >= DDP_TIMEOUT && status <= DDP_COLLECTIVE_ERROR) handle->member->set_failed();
  return status;
}

// Makes a group of the ranks that meet at the point that `meet(timeout)` returns.
template <class Meet>
int CreateGroup(const char* backend, double timeout_seconds, ddp_group** group, Meet meet) {
  return Guard([&] {
    NotNull(group, "group") = nullptr;
    NotNull(backend, "backend");
    const Duration timeout = TimeoutFrom(timeout_seconds);
    *group = new ddp_group{std::make_shared<Member>(meet(timeout), backend, timeout)};
  });
}

// Runs a collective on a buffer of the caller's, to its end.
template <class Issue>
int RunCollective(ddp_group* group, void* data, int64_t num_elements, int dtype, Issue issue) {
  return Run(group, [&](ddp::ProcessGroup& ranks) {
    issue(ranks, ddp::Buffer{data, num_elements, DTypeFrom(dtype)})->Wait();
  });
}

std::vector<ddp::NamedArray> ArraysFrom(const ddp_array* arrays, int num_arrays) {
  InRange(num_arrays, 1, std::numeric_limits<int>::max(), "num_arrays");
  NotNull(arrays, "arrays");
  std::vector<ddp::NamedArray> named;
  for (int i = 0; i < num_arrays; ++i) {
    const auto& [name, data, num_elements, dtype] = arrays[i];
    named.push_back({&NotNull(name, "an array's name"), {data, num_elements, DTypeFrom(dtype)}});
  }
  return named;
}

}  // namespace

extern "C" {

const char* ddp_version() { return DDP_VERSION; }

const char* ddp_last_error() { return last_error.c_str(); }

int ddp_group_create(const char* host, int port, int rank, int world_size, const char* backend,
                     double timeout_seconds, ddp_group** group) {
  return CreateGroup(backend, timeout_seconds, group, [&](Duration timeout) {
    return ddp::MeetingPoint({.host = &NotNull(host, "host"),
                              .port = InRange(port, 1, 65535, "port"),
                              .rank = InRange(rank, 0, world_size - 1, "rank"),
                              .world_size = world_size},
                             timeout);
  });
}

int ddp_group_create_from_environment(const char* backend, double timeout_seconds,
                                      ddp_group** group) {
  return CreateGroup(backend, timeout_seconds, group, [](Duration timeout) {
    return ddp::MeetingPoint(ddp::MeetingPlaceFrom(ddp::ProcessEnvironment()), timeout);
  });
}

int ddp_group_create_from_mpi(int communicator, const char* backend, double timeout_seconds,
                              ddp_group** group) {
  return CreateGroup(backend, timeout_seconds, group,
                     [&](Duration timeout) { return ddp::MeetOverMpi(communicator, timeout); });
}

int ddp_group_destroy(ddp_group* group) {
  return Guard([&] { delete group; });
}

int ddp_group_rank(const ddp_group* group, int* rank) {
  return Guard([&] { NotNull(rank, "rank") = NotNull(group, "group").member->group().rank(); });
}

int ddp_group_size(const ddp_group* group, int* size) {
  return Guard([&] { NotNull(size, "size") = NotNull(group, "group").member->group().size(); });
}

int ddp_all_reduce(ddp_group* group, void* data, int64_t num_elements, int dtype, int reduction) {
  return RunCollective(
      group, data, num_elements, dtype, [&](ddp::ProcessGroup& ranks, const ddp::Buffer& buffer) {
        return ranks.AllReduce(
            buffer, static_cast<ReduceOp>(InRange(reduction, DDP_SUM, DDP_MAX, "reduction")));
      });
}

int ddp_broadcast(ddp_group* group, void* data, int64_t num_elements, int dtype, int root) {
  return RunCollective(group, data, num_elements, dtype,
                       [&](ddp::ProcessGroup& ranks, const ddp::Buffer& buffer) {
                         return ranks.Broadcast(buffer, root);
                       });
}

int ddp_barrier(ddp_group* group) {
  return Run(group, [](ddp::ProcessGroup& ranks) { ranks.Barrier()->Wait(); });
}

int ddp_averager_create(ddp_group* group, const ddp_array* arrays, int num_arrays,
                        int64_t bucket_bytes, ddp_averager** averager) {
  return Run(group, [&](ddp::ProcessGroup& ranks) {
    NotNull(averager, "averager") = nullptr;
    ddp::GradientAveragerOptions options;
    if (bucket_bytes != 0) {
      options.bucket_bytes = bucket_bytes;
      options.first_bucket_bytes = std::min(bucket_bytes, options.first_bucket_bytes);
    }
    *averager = new ddp_averager{group->member, {ranks, ArraysFrom(arrays, num_arrays), options}};
  });
}

int ddp_averager_destroy(ddp_averager* averager) {
  return Guard([&] { delete averager; });
}

int ddp_averager_data(const ddp_averager* averager, int index, void** data) {
  return Guard(
      [&] { NotNull(data, "data") = NotNull(averager, "averager").averager.array(index).data; });
}

int ddp_averager_ready(ddp_averager* averager, int index) {
  return Run(averager, [&](ddp::ProcessGroup&) { averager->averager.Ready(index); });
}

int ddp_averager_wait(ddp_averager* averager) {
  return Run(averager, [&](ddp::ProcessGroup&) { averager->averager.Wait(); });
}

}  // extern "C"
