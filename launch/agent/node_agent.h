// NodeAgent: the loop behind RunAgent. It follows the plans of a rendezvous: starts ranks, passes
// on what they print and what signals say, ends them when one fails or another node does, reports
// how they ended. It waits for nothing but events, all in one place.
#pragma once

#include <list>
#include <optional>
#include <string>

#include "launch/agent/agent_options.h"
#include "launch/agent/process_tree.h"
#include "launch/agent/rank_process.h"
#include "launch/agent/rendezvous.h"
#include "launch/agent/signal_pipe.h"

namespace launch {

class NodeAgent {
 public:
  // `mark` is what tells its ranks, and what they start, from all other processes (guardian.h).
  // Options and rendezvous must outlive it.
  NodeAgent(const AgentOptions& options, const std::string& mark, NodeRendezvous* rendezvous);
  ~NodeAgent();
  NodeAgent(const NodeAgent&) = delete;
  NodeAgent& operator=(const NodeAgent&) = delete;

  // Returns when the job has ended, or this node's part in it.
  Verdict Run();

 private:
  // Calls `talk` unless the rendezvous is of no more use; an error in it makes it so.
  template <class Talk>
  void TryToTalk(Talk talk);
  bool MustWrite() const;
  void WaitForEvents();
  int MillisecondsToDeadline() const;

  void HandleSignals();
  void HandleSignal(const ReceivedSignal& signal);
  bool HasFailed(int signal_to_all) const;
  void HandleRendezvous();
  void HandleRanks();
  void HandleDeadlines();

  void Start(const Assignment& assignment);
  RankOptions OptionsOf(const Assignment& assignment, int local_rank) const;
  void EndGeneration();
  Verdict VerdictAfterSignal(const NodeReport& report) const;
  void StopBy(TimePoint time, std::chrono::milliseconds grace);
  void KillBy(TimePoint time);
  void Say(const std::string& line);

  const AgentOptions& options_;
  const std::string mark_;
  NodeRendezvous* const rendezvous_;
  SignalPipe signals_;
  Outputs outputs_;
  const ProcessTree tree_;
  std::list<RankProcess> ranks_;  // of this generation; empty between two
  // When ranks get SIGTERM, how long before SIGKILL, and when that comes.
  std::optional<TimePoint> terminate_at_;
  std::chrono::milliseconds grace_{};
  std::optional<TimePoint> kill_at_;
  bool stopping_ = false;      // ranks have been asked to end
  std::optional<int> signal_;  // that ends the agent
  bool failed_before_signal_ = false;
  std::optional<Verdict> broken_;  // why the rendezvous is of no more use
  std::optional<Verdict> verdict_;
  std::optional<TimePoint> drop_output_at_;
};

}  // namespace launch
