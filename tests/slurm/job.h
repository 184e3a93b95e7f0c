// Job: a batch job on the cluster of with_slurm.sh, for tests.
//
//   Job job = Job::Submit({"--nodes=2"}, {"slurm/ddp_job.sh", "--steps=20"});
//   job.AwaitLine("0: step 10");
//   scancel...
//   EXPECT_EQ(job.AwaitEnd(), "COMPLETED 0:0");
//
// A wait in vain, until the job's end or for too long, throws std::runtime_error with the job's
// log.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace slurm {

using Words = std::vector<std::string>;

Words operator+(Words one, const Words& other);

// Flags of sbatch: four tasks on two nodes, 0 and 1 on node1, 2 and 3 on node2.
extern const Words kTwoByTwo;

// Of a file or folder of the workspace.
std::string AbsolutePath(const std::string& path);

std::string ReadFile(const std::string& path);

// Runs a command of Slurm's, or another, and returns what it prints. Throws std::runtime_error
// when it fails.
std::string OutputOf(const Words& command,
                     const std::map<std::string, std::string>& environment = {});

// tests/hosts/host.sh ACTION NODE MORE...; returns what it prints.
std::string Host(const std::string& action, const std::string& node, const Words& more = {});

class Job {
 public:
  // sbatch with `flags`, in a folder of the job's own; paths in `script` are relative to the
  // workspace.
  static Job Submit(const Words& flags, const Words& script,
                    const std::map<std::string, std::string>& environment = {});

  // The same of slurm/ddp_job.sh with a program, which is given as a path of the workspace.
  static Job SubmitProgram(const std::string& program, const Words& flags, const Words& arguments);

  // One of an array's elements.
  Job Element(int index) const;

  const std::string& id() const { return id_; }
  // Where it runs, and leaves its checkpoints.
  const std::string& directory() const { return directory_; }
  std::string Log() const;
  // Such as RUNNING.
  std::string State() const;
  // What `scontrol show job` calls it: "ExitCode", "Restarts", ...
  std::string Property(const std::string& name) const;

  void AwaitState(const std::string& state) const;
  // Waits until a line of the log contains `text`, and returns the line.
  std::string AwaitLine(const std::string& text) const;
  // State and exit code at the end: "FAILED 3:0".
  std::string AwaitEnd() const;

  // Asks as Slurm does when the job's limit approaches.
  void AskToStop() const;
  // Awaits that the job was put back into the queue, and lets it start soon: Slurm itself would
  // wait for two minutes.
  void LetRestart() const;

 private:
  Job(std::string id, std::string directory, std::string log)
      : id_(std::move(id)), directory_(std::move(directory)), log_(std::move(log)) {}

  void Await(const std::string& what, const std::function<bool()>& condition) const;

  std::string id_, directory_, log_;
};

}  // namespace slurm
