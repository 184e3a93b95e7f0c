// RunCheckpoints: what a training run goes on from, and what it leaves to go on from.
//
//   RunCheckpoints checkpoints(options, data.size(), *group);
//   const std::optional<ddp::Checkpoint> begin = checkpoints.Load();
//   Learner learner(options, data, *group, begin ? &*begin : nullptr);
//   while (learner.steps() < learner.total_steps()) {
//     learner.Step();
//     if (checkpoints.IsDue(learner)) checkpoints.Save(learner);
//   }
//   checkpoints.Finish();
//
// All ranks call Load, Save and Finish together. Without --checkpoint_dir nothing is loaded or due.
// Throws ddp::CheckpointError, on all ranks, for what goes wrong with the files.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ddp/checkpoint/checkpointer.h"
#include "ddp/collectives/process_group.h"
#include "launch/trainer/learner.h"
#include "launch/trainer/options.h"

namespace launch {

class RunCheckpoints {
 public:
  // `group` must outlive it; `num_examples`: of the data to learn from.
  RunCheckpoints(const TrainOptions& options, int64_t num_examples, ddp::ProcessGroup& group);

  // What --resume says. Throws std::invalid_argument, naming flag and values, for a checkpoint of a
  // run that was told otherwise what it learns, or from what. What only changes the way from here
  // on, such as the learning rate, may differ.
  std::optional<ddp::Checkpoint> Load();
  // What there is to tell about Load, a line each; the same on all ranks.
  const std::vector<std::string>& notes() const { return notes_; }

  // After the first step, when the optimizer has its states: so that the first Save holds the run
  // up no longer than others.
  void Prepare(const Learner& learner);
  // Whether a checkpoint is wanted after the step that was taken last.
  bool IsDue(const Learner& learner) const;
  // Ranks that drift are averaged first.
  void Save(Learner& learner);
  // Waits until what was saved is on the disk.
  void Finish();
  // For rank 0 when the group has failed. Throws std::runtime_error where the learner isn't between
  // two steps, or the checkpoint can't be written.
  void SaveAlone(const Learner& learner);

  // Seconds that this rank has spent in Save and Finish.
  double seconds() const { return seconds_; }

 private:
  ddp::Checkpoint CheckpointOf(const Learner& learner) const;
  void ReportProgress();
  void CheckSettings(const ddp::Checkpoint& checkpoint);
  void CheckSetting(const std::string& name, const ddp::Checkpoint& checkpoint);
  void NoteWhatIsLost();

  const std::string directory_;
  const ddp::Resume resume_;
  const std::string hook_;
  const int64_t every_;
  const std::map<std::string, std::string> settings_;
  std::optional<ddp::Checkpointer> checkpointer_;
  std::vector<std::string> notes_;
  double seconds_ = 0;
};

// The weights of --init_from on all ranks, as in Learner::LoadWeights: rank 0 reads the file.
// Throws ddp::CheckpointError, on all ranks, where it can't be read or doesn't fit the model.
std::vector<ops::NamedTensor> InitialWeights(const TrainOptions& options, ddp::ProcessGroup& group);

}  // namespace launch
