// ProcessTree: all processes that descend from this one, also those that left the session and those
// whose parents have ended, so that none is left behind.
//
// While one lives, orphans among the descendants become children of this process (it is a "child
// subreaper", prctl(2)), so the way up from each of them ends here. Children that this process had
// before, and what they started, are not of the tree.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>
#include <vector>

namespace launch {

class ProcessTree {
 public:
  ProcessTree();
  ~ProcessTree();
  ProcessTree(const ProcessTree&) = delete;
  ProcessTree& operator=(const ProcessTree&) = delete;

  // Kills and reaps all, again and again until nobody is left: they may start others meanwhile.
  // Returns false if somebody still lives after `patience`. No thread may reap children meanwhile.
  bool End(std::chrono::milliseconds patience) const;

 private:
  struct Member {
    pid_t pid, parent;
  };
  std::vector<Member> Members() const;

  int was_subreaper_ = 0;
  std::set<pid_t> strangers_;  // children from before
};

}  // namespace launch
