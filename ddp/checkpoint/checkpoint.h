// A checkpoint: all that a training needs to go on, as a value and as a folder of files.
//
//   run/step-00000120/
//     manifest.json          the other files, their sizes and their CRC-32
//     state.json             step, epoch, samples, counters, settings
//     model.safetensors      a file for each group of tensors
//     optimizer.safetensors
//
// A folder appears as a whole: files are written under a temporary name beside it, brought to the
// disk, and committed by one rename. A kill, or a power failure, at any point leaves what was
// committed before untouched. Programs without this library read it with a JSON parser: the
// safetensors format is in safetensors.h, the checksums are zlib's crc32.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops/tensor/tensor.h"

namespace ddp {

struct Checkpoint {
  // Steps of the optimizer that were taken.
  int64_t step = 0;
  // Where in the data the training is: DataLoaderOptions' first_epoch and first_epoch_consumed.
  int64_t epoch = 0;
  int64_t samples_in_epoch = 0;
  // Other whole numbers by name.
  std::map<std::string, int64_t> counters = {};
  // What the run was told, by name, for comparison with what the next one is told.
  std::map<std::string, std::string> settings = {};
  // Tensors by group and name. A group is a file: "model" (Module::StateDict, or a MasterWeights'
  // parameters), "optimizer" (Optimizer::StateDict), "averages", "loss_scaler", "random"
  // (Generator::State), or anything else; bytes of other kinds are uint8 tensors. The names of
  // groups have letters, digits, '-' and '_'.
  std::map<std::string, std::vector<ops::NamedTensor>> tensors = {};

  // The group's tensors. Throws std::invalid_argument that names the group where there is none.
  const std::vector<ops::NamedTensor>& Group(const std::string& name) const;
};

// A folder that isn't a whole checkpoint: a file is missing, shorter or longer than it was, or of
// other bytes. The message has the file's path, and what is wrong with it.
class DamagedCheckpoint : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Writes the checkpoint into a new folder of `directory`, which exists: "step-00000120", or where
// that is taken "step-00000120.2". Returns its path, once all of it is on the disk. Throws
// std::system_error with the path of what can't be written, std::invalid_argument for names that
// can't be; then nothing has appeared.
std::string WriteCheckpoint(const std::string& directory, const Checkpoint& checkpoint);

// Reads such a folder; the tensors have memory of their own. Throws DamagedCheckpoint, and
// std::system_error with the path where the operating system won't let it be read.
Checkpoint ReadCheckpoint(const std::string& path);

// Throws as ReadCheckpoint does, but builds nothing. Returns the bytes of all files together.
int64_t VerifyCheckpoint(const std::string& path);

// The folders of checkpoints in `directory`, as paths, newest first: by step, and for one step by
// the number behind the dot. Whether they are whole is not looked at. None where there is no such
// directory.
std::vector<std::string> ListCheckpoints(const std::string& directory);

// Deletes checkpoints, but not the newest of each of `keep` steps from `newest` down, nor those
// newer than `newest`, which is one of ListCheckpoints; and what killed programs left half written
// or half deleted. A kill leaves none that is half there. Throws std::system_error with the path.
void DeleteOldCheckpoints(const std::string& directory, const std::string& newest, int64_t keep);

}  // namespace ddp
