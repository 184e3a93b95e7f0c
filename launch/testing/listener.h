// Listener: a socket that listens on a loopback port of its own, for tests of ports that are in
// use.
#pragma once

#include "launch/agent/file_descriptor.h"

namespace launch {

class Listener {
 public:
  Listener();
  int port() const { return port_; }

 private:
  FileDescriptor socket_;
  int port_ = 0;
};

// A port that was free a moment ago, for programs that must be told one.
inline int FreePort() { return Listener().port(); }

}  // namespace launch
