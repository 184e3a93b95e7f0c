// Coordinator: the one of a job's agents that decides for all, in the agent that holds the store.
//
// It waits for the nodes of a generation, tells all which they are (GroupPlan), waits until all of
// them have ended it (NodeEnd), and decides what follows: another generation, with those that are
// left, or the end of the job. The keys, under "<generation>/":
//
//   joined, join/<n>   how many agents want to take part, and the n-th of them, from 0 (NodeInfo)
//   gone/<id>          that agent doesn't any more
//   plan               who takes part, or how the job ends (GroupPlan)
//   over               why it ends before its ranks have (Over)
//   end/<id>           how it ended there (NodeEnd)
//
// and "generation", the one to join now, "agents", how many there have been besides this one, and
// "bye/<id>" of an agent that knows how the job ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ddp/duration.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"
#include "launch/agent/group_options.h"
#include "launch/agent/group_records.h"
#include "launch/agent/restart_policy.h"

namespace launch {

std::string GroupKey(int64_t generation, const std::string& name);

class Coordinator {
 public:
  // Holds the store of the agents at `server`, and one of the ranks at another port. Begins at
  // once, in a thread of its own.
  Coordinator(std::unique_ptr<ddp::TcpStoreServer> server, const GroupOptions& options,
              const std::string& run_id, const RestartLimits& limits);
  // Ends it: after the job has, once all agents know how; else by closing the store under the feet
  // of everybody.
  ~Coordinator();

 private:
  void Run();
  Verdict Coordinate();
  // The nodes of the next generation by rank. Throws ddp::CollectiveError when too few come.
  std::vector<NodeInfo> Gather();
  bool AwaitMore(ddp::Deadline deadline);
  void DropWhoHasGone();
  bool IsComplete() const;
  bool IsEnough() const;
  std::vector<NodeInfo> Chosen(std::vector<NodeInfo> joined) const;
  GroupPlan MakePlan(std::vector<NodeInfo> nodes);
  // Begins the next generation, or ends the job in its place.
  void Publish(const GroupPlan& plan);
  std::string RunningKey(const std::string& name) const;
  void NoticeWhoHasGone();
  std::vector<NodeEnd> AwaitEnds();
  // How the job ends, or nothing: another generation follows.
  std::optional<Verdict> Judge(const std::vector<NodeEnd>& ends);
  std::optional<Over> WhyOver();
  void SayGoodbye(const Verdict& verdict);

  const GroupOptions options_;
  const std::string run_id_;
  std::unique_ptr<ddp::TcpStoreServer> agents_server_;
  ddp::TcpStoreServer ranks_server_;
  ddp::TcpStore store_;
  std::atomic<bool> job_has_ended_ = false;
  // The thread's own.
  RestartPolicy policy_;
  int64_t generation_ = 0;        // the next: its plan isn't published yet
  int64_t num_joined_ = 0;        // that one
  std::vector<NodeInfo> joined_;  // without those that were found to have gone since
  std::vector<NodeInfo> nodes_;   // of the generation before
  bool must_replace_ = false;     // one of those is gone
  std::string because_;           // why that one ended
  std::thread thread_;
};

}  // namespace launch
