// Which nodes are to come together for a job, and where.
#pragma once

#include <optional>
#include <string>

#include "ddp/duration.h"

namespace launch {

struct GroupOptions {
  // As few and as many as may take part.
  int min_nodes = 1, max_nodes = 1;
  // Where all agents meet: of the machine that holds the store. That is the one that has this
  // address and comes first; where node ranks are given, node 0.
  std::string host = "";
  int port = 0;
  // The same on all nodes, and another for each job: agents of two jobs refuse each other.
  std::string job_id = "";
  std::optional<int> node_rank = std::nullopt;  // this node's; nothing: as it comes
  // Under which others reach this node; "": the one that leads to the store.
  std::string address = "";
  // How long to wait for min_nodes at the beginning.
  ddp::Duration join_timeout = ddp::kDefaultTimeout;
  // How long to wait for more nodes than are needed: at the beginning after the last has come,
  // later for one in the place of one that is gone.
  ddp::Duration node_wait = std::chrono::seconds(5);
  // After how long a node counts as lost that is silent. One whose agent ends is lost at once.
  ddp::Duration heartbeat_timeout = std::chrono::seconds(10);
};

}  // namespace launch
