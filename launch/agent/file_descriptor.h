// Pipes and descriptors of the agent. What is opened here isn't for programs that are started later
// (O_CLOEXEC).
#pragma once

#include <string_view>

#include "ddp/file_descriptor.h"

namespace launch {

using ddp::FileDescriptor;

struct Pipe {
  FileDescriptor read_end, write_end;
};

// Throws std::system_error, as all functions here that ask the system for something.
Pipe MakePipe();
FileDescriptor OpenNull();
void SetNonBlocking(const FileDescriptor& fd);

// Throws std::system_error; where descriptors have run out, that says where their limit is set.
[[noreturn]] void ThrowSystemError(int error, const char* what);

// Writes all of `text`, in one piece where the system takes it so, and waits for room. Returns
// false, with errno, on an error, such as a full disk.
bool WriteAll(int fd, std::string_view text);

}  // namespace launch
