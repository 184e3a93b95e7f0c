// LineForwarder: takes what a rank prints from a pipe and passes on whole lines, so that lines of
// several ranks on one output are never torn.
#pragma once

#include <string>

#include "launch/agent/file_descriptor.h"

namespace launch {

class LineForwarder {
 public:
  LineForwarder() = default;
  // Reads from `source`, writes to `destination`, which must stay open.
  LineForwarder(FileDescriptor source, int destination);

  // What to poll for reading; -1 once everything has been read.
  int fd() const { return source_.get(); }

  // Passes on what is there now, up to the last line break. At the end of the input, an unfinished
  // line is finished.
  void Forward();
  // The rank has ended: passes on the rest. A grandchild that still holds the pipe is not awaited.
  void Finish();

 private:
  // Returns whether there may be more.
  bool ReadOnce();
  void WriteLines();

  FileDescriptor source_;
  int destination_ = -1;
  std::string pending_;
};

}  // namespace launch
