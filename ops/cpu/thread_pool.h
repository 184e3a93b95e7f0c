// The threads that kernels split their work over.
//
//   ThreadPool pool(4);             // this thread and three workers
//   ScopedThreadPool use(&pool);    // kernels called by this thread, in this scope, use it
//   ParallelFor(rows, 64, [&](int64_t begin, int64_t end) { ... });
//
// Work is cut into chunks whose size the caller fixes; threads only decide who runs which chunk.
// So results don't depend on the number of threads, as long as a chunk writes only what is its own.
// Each thread begins with a share of neighbouring chunks, the same one in every loop, so that it
// finds in its core's cache what it wrote in the loop before; and then helps the others.
// Workers spin for some microseconds before they sleep, as steps follow each other closely.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace ops::cpu {

class ThreadPool {
 public:
  // `num_threads` counts the calling thread, so 1 makes no thread. Throws std::invalid_argument
  // below 1.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();

  int num_threads() const;

  // Calls body(chunk) for chunk = 0 .. num_chunks-1, on this thread and the workers; returns when
  // all are done. The first exception that a body throws is thrown here, after the others ended.
  // One caller at a time; a body must not call Run of the same pool (ParallelFor runs nested loops
  // on the calling thread).
  void Run(int64_t num_chunks, absl::FunctionRef<void(int64_t chunk)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Makes `pool` (null: none) the one that ParallelFor uses on this thread, until the scope ends.
class ScopedThreadPool {
 public:
  explicit ScopedThreadPool(ThreadPool* pool);
  ~ScopedThreadPool();
  ScopedThreadPool(const ScopedThreadPool&) = delete;
  ScopedThreadPool& operator=(const ScopedThreadPool&) = delete;

 private:
  ThreadPool* previous_;
};

// Calls body(begin, end) for [0, chunk), [chunk, 2 chunk), ... up to `count`, over the threads of
// this thread's pool, or in order on this thread where there is none or only one chunk.
inline void ParallelFor(int64_t count, int64_t chunk,
                        absl::FunctionRef<void(int64_t begin, int64_t end)> body);

namespace internal {
void ForEachChunk(int64_t count, int64_t chunk, absl::FunctionRef<void(int64_t, int64_t)> body);
}

// One chunk costs its caller nothing but the call.
inline void ParallelFor(int64_t count, int64_t chunk,
                        absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  if (count > chunk) return internal::ForEachChunk(count, chunk, body);
  if (count > 0) body(0, count);
}

}  // namespace ops::cpu
