// WorkList: operations under way that are waited for together. Their buffers stay in use until
// each has ended, so it waits for all of them even when one fails.
#pragma once

#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "ddp/collectives/process_group.h"

namespace ddp {

class WorkList {
 public:
  WorkList() = default;
  WorkList(const WorkList&) = delete;
  WorkList& operator=(const WorkList&) = delete;
  // Waits, quietly.
  ~WorkList() { End(); }

  void Add(std::shared_ptr<Work> work) { works_.push_back(std::move(work)); }
  size_t size() const { return works_.size(); }

  // Returns, empty, when all have ended; throws what the first that failed threw.
  void Wait() {
    if (std::exception_ptr error = End()) std::rethrow_exception(error);
  }

  // The same without throwing.
  std::exception_ptr End() noexcept {
    std::exception_ptr first;
    for (const std::shared_ptr<Work>& work : works_) {
      try {
        work->Wait();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    works_.clear();
    return first;
  }

 private:
  std::vector<std::shared_ptr<Work>> works_;
};

}  // namespace ddp
