// LineForwarder: takes what a rank prints from a pipe and passes on whole lines, so that lines of
// several ranks on one output are never torn. It never waits.
#pragma once

#include <string>
#include <string_view>

#include "launch/agent/file_descriptor.h"
#include "launch/agent/output.h"

namespace launch {

struct LineOptions {
  // Before each line.
  std::string prefix = "";
  // Gets the lines, too, without the prefix.
  Output* copy = nullptr;
};

class LineForwarder {
 public:
  LineForwarder() = default;
  // Reads from `source`, adds to `output`, which must outlive it, as the copy must.
  LineForwarder(FileDescriptor source, Output* output, LineOptions options = {});

  // What to poll for reading; -1 once everything has been read, and while the output is full.
  int fd() const { return CanForward() ? source_.get() : -1; }

  // Passes on what is there now, up to the last line break, unless the output is full. At the end
  // of the input, an unfinished line is finished.
  void Forward();
  // The rank has ended: passes on the rest. A grandchild that still holds the pipe is not awaited.
  void Finish();

 private:
  bool CanForward() const { return source_.is_open() && !output_->is_full(); }
  // Returns whether there may be more.
  bool ReadOnce();
  void PassOnLines();
  void AddWithPrefix(std::string_view lines);

  FileDescriptor source_;
  Output* output_ = nullptr;
  LineOptions options_;
  std::string pending_;
  bool in_line_ = false;  // the last piece passed on was not the end of its line
};

}  // namespace launch
