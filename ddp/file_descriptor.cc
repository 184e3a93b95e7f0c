#include "ddp/file_descriptor.h"

#include <unistd.h>

namespace ddp {

FileDescriptor::~FileDescriptor() {
  if (is_open()) close(fd_);
}

}  // namespace ddp
