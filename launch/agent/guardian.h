// Guardian: a small process that ends what this one leaves behind when it is killed.
//
// The kernel kills the ranks when their agent dies, but not what the ranks have started, and once
// the parents are gone nothing tells whose children those were. So each rank gets a mark in its
// environment, which its descendants inherit. The guardian waits at a pipe that only this process
// holds; when that closes without a word, it kills whatever carries the mark.
//
// It has a session of its own, so that neither Ctrl-C nor a signal to the process group reaches it.
// The mark of an agent that is itself a rank's descendant continues that of the agent above, which
// so finds everything.
// What clears its environment, or runs as another user, escapes it.
#pragma once

#include <string>

#include "launch/agent/file_descriptor.h"

namespace launch {

class Guardian {
 public:
  // Throws std::system_error when there is no more room for a process.
  Guardian();
  // All is well: the guardian goes.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // The variable and the value that mark a process, no other agent's.
  static constexpr char kVariable[] = "DDP_AGENT";
  const std::string& mark() const { return mark_; }

 private:
  const std::string mark_;
  Pipe pipe_;  // both ends: writing to a guardian that was killed is no error
};

}  // namespace launch
