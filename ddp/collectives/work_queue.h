// WorkQueue: runs the operations of a group one after the other, in the order they were issued, on
// a thread of its own, or on the thread that waits for the first one in line: handing an operation
// over to a thread and back costs more than a small operation itself.
//
//   WorkQueue queue;
//   std::shared_ptr<Work> work = queue.Push([&] { Transfer(); });
//   work->Wait();   // throws what Transfer() threw
#pragma once

#include <functional>
#include <memory>

#include "ddp/collectives/process_group.h"

namespace ddp {

class WorkQueue {
 public:
  WorkQueue();
  // Returns when all that was pushed has run.
  ~WorkQueue();

  // The thread starts with the first call. Calls may come from several threads.
  std::shared_ptr<Work> Push(std::function<void()> run);

 private:
  class State;
  class Task;
  // Shared with tasks, which may outlive the queue.
  const std::shared_ptr<State> state_;
};

}  // namespace ddp
