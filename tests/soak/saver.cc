// Saves one checkpoint after the other into a folder, until it is killed. Prints "saved 7" as soon
// as that is sure to be on the disk.
#include "tests/soak/saver.h"

#include <fmt/format.h>

#include <cstdio>

#include "ddp/checkpoint/checkpointer.h"
#include "ddp/checkpoint/testing.h"

int main(int, char** argv) {
  const auto group = ddp::InitProcessGroup({});
  ddp::Checkpointer checkpointer(*group, {.directory = argv[1]});
  const auto last = checkpointer.Load(ddp::Resume::kAuto);
  for (int64_t step = last ? last->step + 1 : 1;; ++step) {
    checkpointer.Save(ddp::CheckpointOf(step, ddp::kSaverElements));
    // The one before is there now.
    fmt::print("saved {}\n", step - 1);
    std::fflush(stdout);
  }
}
