#include "ddp/checkpoint/checkpointer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "ddp/atomic_file.h"
#include "ddp/checkpoint/broadcast.h"

namespace ddp {
namespace {

const CheckpointerOptions& Checked(const CheckpointerOptions& options) {
  if (options.directory.empty()) throw std::invalid_argument("Checkpointer: no directory is given");
  if (options.keep < 1) {
    throw std::invalid_argument(
        fmt::format("Checkpointer: keep is {}; at least 1 is needed", options.keep));
  }
  return options;
}

// Signals are for the program's threads. (SIGXFSZ, of a file that may not grow, would end it: where
// it is blocked, the write fails instead.) And where these have no core to spare, they come first.
void StepBack() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  setpriority(PRIO_PROCESS, gettid(), getpriority(PRIO_PROCESS, gettid()) + 10);
}

void Write(const CheckpointerOptions& options, const Checkpoint& checkpoint) {
  try {
    const std::string path = WriteCheckpoint(options.directory, checkpoint);
    DeleteOldCheckpoints(options.directory, path, options.keep);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("can't save step {}: {}", checkpoint.step, error.what()));
  }
}

}  // namespace

Checkpointer::Checkpointer(ProcessGroup& group, CheckpointerOptions options)
    : group_(group), options_(Checked(std::move(options))) {
  Together(group, [&] {
    if (group.rank() != 0) return;
    std::filesystem::create_directories(options_.directory);
    CheckWritable(options_.directory + "/checkpoint");
  });
}

Checkpointer::~Checkpointer() = default;

std::optional<Checkpoint> Checkpointer::Load(Resume resume) {
  Finish();
  passed_over_.clear();
  loaded_path_.clear();
  Checkpoint checkpoint;
  Together(group_, [&] {
    if (group_.rank() == 0) checkpoint = Read(resume);
  });
  const nlohmann::json mine = {loaded_path_, passed_over_};
  const auto told = nlohmann::json::parse(group_.ExchangeBlobs(mine.dump())[0]);
  told[0].get_to(loaded_path_);
  told[1].get_to(passed_over_);
  if (loaded_path_.empty()) return std::nullopt;
  return BroadcastCheckpoint(group_, checkpoint);
}

// On rank 0: the newest whole one, where `resume` wants one and there is one.
Checkpoint Checkpointer::Read(Resume resume) {
  const std::string& directory = options_.directory;
  const std::vector<std::string> paths = ListCheckpoints(directory);
  if (resume == Resume::kNever) {
    if (paths.empty()) return {};
    throw std::invalid_argument(
        fmt::format("{} is there: choose a directory without checkpoints to begin anew", paths[0]));
  }
  for (const std::string& path : paths) {
    try {
      Checkpoint checkpoint = ReadCheckpoint(path);
      loaded_path_ = path;
      return checkpoint;
    } catch (const DamagedCheckpoint& damaged) {
      passed_over_.push_back(damaged.what());
    }
  }
  if (resume == Resume::kAuto) return {};
  if (paths.empty()) throw std::invalid_argument("there is no checkpoint in " + directory);
  throw DamagedCheckpoint(fmt::format("there is no whole checkpoint in {}: {}", directory,
                                      fmt::join(passed_over_, "; ")));
}

void Checkpointer::Prepare(const Checkpoint& checkpoint) {
  // Memory that a save may be reading is left alone.
  if (group_.rank() != 0 || preparing_.valid() || saving_.valid()) return;
  preparing_ = std::async(std::launch::async, [this, num_bytes = Snapshot::BytesOf(checkpoint)] {
    StepBack();
    snapshot_.Prepare(num_bytes);
  });
}

void Checkpointer::Save(const Checkpoint& checkpoint) {
  Checkpoint copy;
  Together(group_, [&] {
    RethrowSaved();
    if (preparing_.valid()) preparing_.get();
    if (group_.rank() == 0) copy = snapshot_.Take(checkpoint);
  });
  if (group_.rank() != 0) return;
  saving_ = std::async(std::launch::async, [options = options_, copy = std::move(copy)] {
    StepBack();
    Write(options, copy);
    return copy.step;
  });
}

void Checkpointer::Finish() {
  Together(group_, [&] { RethrowSaved(); });
}

// Waits for the save under way.
void Checkpointer::RethrowSaved() {
  if (saving_.valid()) saved_step_ = saving_.get();
}

void Checkpointer::SaveAlone(const Checkpoint& checkpoint) {
  try {
    RethrowSaved();
  } catch (const std::exception&) {
    // An older one; this one may go better.
  }
  Write(options_, checkpoint);
  saved_step_ = checkpoint.step;
}

}  // namespace ddp
