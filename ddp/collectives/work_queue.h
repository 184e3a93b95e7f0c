// WorkQueue: runs the operations of a group one after the other, in the order they were issued, on
// a thread of its own, or on the thread that waits for one: handing an operation over to a thread
// and back costs more than a small operation itself.
//
//   class Transfer : public WorkQueue::Item { void Execute() override { ... } };
//   WorkQueue queue;
//   auto work = std::make_shared<Transfer>();
//   queue.Push(work);
//   work->Wait();   // throws what Execute() threw
#pragma once

#include <atomic>
#include <exception>
#include <memory>

#include "ddp/collectives/process_group.h"

namespace ddp {

class WorkQueue {
 private:
  class State;

 public:
  class Item : public Work {
   public:
    void Wait() final;
    bool IsDone() final;

   private:
    friend class WorkQueue;

    // May do a part of the work at once, in Push, when nothing but posted items is ahead. An item
    // that returns true is posted: no thread is woken for it, it runs when someone waits for it or
    // an item behind it runs.
    virtual bool Post() { return false; }
    // Once, when all items before it have run.
    virtual void Execute() = 0;
    void Run();
    void CheckPushed() const;

    std::shared_ptr<State> state_;  // items may outlive the queue
    bool posted_ = false;           // guarded by the state's mutex
    std::exception_ptr error_;      // set before done_
    std::atomic<int> done_ = 0;     // an int, which std::atomic maps to one futex
  };

  WorkQueue();
  // Returns when all that was pushed has run.
  ~WorkQueue();

  // Each item once. The thread starts with the first item that isn't posted. Calls may come from
  // several threads.
  void Push(std::shared_ptr<Item> item);

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace ddp
