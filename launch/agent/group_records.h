// What the agents of a job on several nodes write into their store for each other, as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/agent/rendezvous.h"

namespace launch {

// An agent that wants to take part.
struct NodeInfo {
  int64_t id = 0;         // of the agent, for as long as it lives
  std::string host = "";  // its name, for people
  std::string address = "";
  int free_port = 0;
  int num_ranks = 1;
  std::optional<int> node_rank = std::nullopt;  // that it asks for
};

// A generation: its nodes by rank, or how the job ends.
struct GroupPlan {
  std::vector<NodeInfo> nodes = {};
  int max_nodes = 1;
  int restart = 0;
  std::string store_address = "";
  std::string run_id = "";
  std::string because = "";
  std::optional<Verdict> verdict = std::nullopt;
};

// How a generation ended for one node.
struct NodeEnd {
  NodeReport report = {};
  bool has_left = false;  // it was told to stop, and takes no further part
  std::optional<std::string> lost =
      std::nullopt;  // nobody knows how: its agent is gone, for this reason
};

std::string Encode(const NodeInfo& node);
std::string Encode(const GroupPlan& plan);
std::string Encode(const NodeEnd& end);
std::string Encode(const Over& over);

// Throw ddp::CollectiveError for text that Encode can't have made.
NodeInfo DecodeNodeInfo(const std::string& text);
GroupPlan DecodeGroupPlan(const std::string& text);
NodeEnd DecodeNodeEnd(const std::string& text);
Over DecodeOver(const std::string& text);

// The place of agent `id` in a generation; nothing when it isn't among its nodes.
std::optional<Assignment> AssignmentOf(const GroupPlan& plan, int64_t id);

}  // namespace launch
