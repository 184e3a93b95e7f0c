// Checkpointer: saves a training that runs on several ranks, in the background, and resumes it.
//
//   ddp::Checkpointer checkpointer(*group, {.directory = "run7"});
//   int64_t step = 0;
//   if (const auto saved = checkpointer.Load(ddp::Resume::kAuto)) {
//     step = saved->step;
//     model.LoadStateDict(saved->Group("model"));
//     optimizer.LoadStateDict(saved->Group("optimizer"));
//   }
//   while (step < total_steps) {
//     TrainStep(step++);
//     if (step % 100 == 0) {
//       checkpointer.Save({.step = step, .tensors = {{"model", model.StateDict()},
//                                                    {"optimizer", optimizer.StateDict()}}});
//     }
//   }
//   checkpointer.Finish();  // the last one is on the disk
//
// For plain replication: rank 0 has the directory, writes and reads; the others get what it has
// read by broadcast, so that they need not see its files, and all have the same. Save and its kin
// are called by all ranks, in the same order, on the thread that uses the group.
//
// Save copies the tensors, and returns; a thread of rank 0 writes them while training goes on. One
// save is under way at a time: the next waits for it. The memory of the copies is used again and
// again; it is as much as the tensors'. On the other ranks a save costs a message.
//
// What goes wrong on one rank is thrown on all: CheckpointError (together.h), which says on which,
// and why. An error of the thread comes out at the next call. The group goes on being usable.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "ddp/checkpoint/checkpoint.h"
#include "ddp/checkpoint/snapshot.h"
#include "ddp/checkpoint/together.h"
#include "ddp/collectives/process_group.h"

namespace ddp {

struct CheckpointerOptions {
  std::string directory;  // of rank 0; made where it is missing, with those above it
  int64_t keep = 2;       // how many checkpoints stay, the newest ones; at least 1
};

// What a training begins with: kAuto: the newest whole checkpoint, or from the beginning where
// there is none; kMust: the newest whole one; kNever: from the beginning, in a directory without
// checkpoints, as they would be mixed up with the new ones.
enum class Resume { kAuto, kMust, kNever };

class Checkpointer {
 public:
  // `group` must outlive it. Throws std::invalid_argument for options that make no sense, and
  // CheckpointError where rank 0 can't make the directory or write into it.
  Checkpointer(ProcessGroup& group, CheckpointerOptions options);
  // Waits until what is under way is on the disk. Errors that nobody has asked for are lost: call
  // Finish.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // What `resume` says; nothing for a training that begins. On each rank the tensors have memory of
  // their own. Damaged checkpoints are passed over, in favour of older ones. Throws CheckpointError
  // where kMust finds no whole one, kNever finds one, or one can't be read.
  std::optional<Checkpoint> Load(Resume resume);
  // Why the last Load passed checkpoints over, a line each; the same on all ranks.
  const std::vector<std::string>& passed_over() const { return passed_over_; }
  // The path of what it loaded; "" for nothing.
  const std::string& loaded_path() const { return loaded_path_; }

  // Takes the memory for saving what is as large as `checkpoint`, in the background: the first Save
  // holds the training up no longer than others then. Any rank may leave it out.
  void Prepare(const Checkpoint& checkpoint);
  // Begins to save. The tensors may be changed once it returns; those of other ranks than 0 aren't
  // looked at. Older checkpoints beyond `keep` go once this one is there.
  void Save(const Checkpoint& checkpoint);
  // Waits for the save under way.
  void Finish();
  // For a rank 0 whose group has failed: saves without the others, and returns when it is on the
  // disk. Throws std::runtime_error.
  void SaveAlone(const Checkpoint& checkpoint);
  // The step of the newest that rank 0 knows to be on the disk; nothing on other ranks.
  std::optional<int64_t> saved_step() const { return saved_step_; }

 private:
  void RethrowSaved();
  Checkpoint Read(Resume resume);

  ProcessGroup& group_;
  const CheckpointerOptions options_;
  std::vector<std::string> passed_over_;
  std::string loaded_path_;
  Snapshot snapshot_;
  std::future<void> preparing_;
  std::future<int64_t> saving_;  // the step
  std::optional<int64_t> saved_step_;
};

}  // namespace ddp
