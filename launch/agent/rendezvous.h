// NodeRendezvous: where the agents of a job agree on who takes part, and on what happens when a
// generation of ranks has ended.
//
// A generation is one start of all ranks on all nodes. For an agent it goes like this:
//
//   rendezvous.Join();
//   poll(rendezvous.fds(), ...); rendezvous.Handle();      // again and again; it never waits long
//   if (auto plan = rendezvous.TakePlan()) ...             // start these ranks, or end the job so
//   if (auto over = rendezvous.TakeOver()) ...             // some other node is in trouble: stop
//   rendezvous.DeclareOver("rank 3 failed: ...");          // this one is
//   rendezvous.Finish({.ends = ..., .progress = ...});     // all ranks here have ended; a plan
//                                                          // follows
//
// solo_rendezvous.h is that of a job on one node, store_rendezvous.h that of several.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launch/agent/root_cause.h"

namespace launch {

// What one node does in a generation: rank `first_rank` and the next are its own.
struct Assignment {
  int restart = 0;  // how many generations there were before
  int node_rank = 0, num_nodes = 1;
  int first_rank = 0, world_size = 1;
  // Of rank 0's node. The port was free a moment ago, for programs whose rank 0 listens.
  std::string master_addr;
  int master_port = 0;
  // Where the ranks find a store that is there already, as "host:port".
  std::string store_address;
  // Of the job, on all nodes and in all generations.
  std::string run_id;
  std::string because;  // one line on what ended the generation before; "" for the first
};

// How the job ends.
struct Verdict {
  int exit_code = 0;
  std::string reason;              // one line; "" when all is well
  std::optional<int> failed_rank;  // which brought it about
  int restarts = 0;
  std::vector<RankEnd> ends = {};  // of the last generation

  bool failed() const { return exit_code != 0 && exit_code != kRequeueExitCode; }
};

using Plan = std::variant<Assignment, Verdict>;

// Why a generation ends before its ranks have.
struct Over {
  std::string reason;
  bool is_failure = true;  // else a node comes or goes, and ranks have time to save what they have
};

// How a generation ended on one node.
struct NodeReport {
  std::vector<RankEnd> ends;
  std::optional<int64_t> progress;  // the step that a restart would go on from, if ranks said so
};

class NodeRendezvous {
 public:
  virtual ~NodeRendezvous() = default;

  // To be called first, once. Throws what goes wrong with the network, as all functions here do.
  virtual void Join() = 0;
  // What to poll for reading, and when to look anyway.
  virtual std::vector<int> fds() const = 0;
  virtual TimePoint next_deadline() const = 0;
  virtual void Handle() = 0;

  virtual std::optional<Plan> TakePlan() = 0;
  virtual std::optional<Over> TakeOver() = 0;

  virtual void DeclareOver(const Over& over) = 0;
  virtual void Finish(NodeReport report) = 0;
  // This node takes part no more once its ranks have ended: the others go on without it.
  virtual void Leave(const std::string& reason) = 0;
};

}  // namespace launch
