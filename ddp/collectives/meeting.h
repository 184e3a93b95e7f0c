// Meeting: how ranks that have no more than a store in common learn of each other before their
// backend connects them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/process_group.h"
#include "ddp/duration.h"
#include "ddp/store/store.h"

namespace ddp {

// What a rank says about itself when it joins.
struct Member {
  int world_size = 0;
  std::string backend;
  // The same for ranks that reach each other by the loopback interface and by shared memory: of one
  // boot of one machine, in the same namespaces.
  std::string host;
  std::string address;  // on the way to the store; "" where the store doesn't know
};

struct Meeting {
  ProcessGroupOptions options;
  std::shared_ptr<Store> store;  // this group's part of options.store
  std::vector<Member> members;   // by rank
  Deadline deadline;             // of everything until the group stands

  int rank() const { return options.rank; }
  int size() const { return options.world_size; }
};

// Says who this rank is and waits for the others; the groups that a rank makes over one store are
// numbered, so that the second of one rank meets the second of the others. Costs each rank a
// constant number of store operations, rank 0 one for each member. Throws TimeoutError ("1 of 3
// ranks joined within 2 s; missing: ranks 1, 2") and MismatchError where ranks disagree about the
// world's size or the backend, CollectiveError that names the key where the store holds what no
// rank has written.
Meeting MeetMembers(const ProcessGroupOptions& options);

}  // namespace ddp
