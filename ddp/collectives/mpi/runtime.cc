#include "ddp/collectives/mpi/runtime.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

namespace ddp::mpi {
namespace {

// MPI is one for a process, whatever we do.
std::once_flag started;
std::atomic<bool> skip_finalize = false;

void Finalize() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && !skip_finalize) MPI_Finalize();
}

const char* NameOfLevel(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED:
      return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "MPI_THREAD_SERIALIZED";
    default:
      return "MPI_THREAD_MULTIPLE";
  }
}

void Initialize() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  int level = MPI_THREAD_SINGLE;
  if (initialized != 0) {
    MPI_Query_thread(&level);
  } else {
    Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    std::atexit(Finalize);
    Check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  if (level != MPI_THREAD_MULTIPLE) {
    throw std::invalid_argument(
        fmt::format("MPI was started with {}, a group's progress thread needs "
                    "MPI_THREAD_MULTIPLE",
                    NameOfLevel(level)));
  }
}

}  // namespace

void Start() { std::call_once(started, Initialize); }

void SkipFinalize() { skip_finalize = true; }

int WorldRank() {
  int rank = 0;
  Check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return rank;
}

int WorldSize() {
  int size = 0;
  Check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  return size;
}

int ReserveTags() {
  void* limit = nullptr;
  int is_set = 0;
  Check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &is_set), "MPI_Comm_get_attr");
  static std::atomic<int64_t> num_reserved = 0;
  const int64_t before = num_reserved++ * WorldSize() + WorldRank();
  const int64_t first = int64_t{*static_cast<int*>(limit)} + 1 - (before + 1) * kTagsPerGroup;
  if (first < 0) throw std::runtime_error("MPI has no tags left for another group");
  return static_cast<int>(first);
}

void Check(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(fmt::format("{}: {}", function, text));
}

}  // namespace ddp::mpi
