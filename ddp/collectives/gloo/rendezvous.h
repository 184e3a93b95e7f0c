// Rendezvous: how ranks that have no more than a store in common come to a connection with each
// peer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddp/collectives/gloo/loop.h"
#include "ddp/collectives/process_group.h"
#include "gloo/transport/context.h"
#include "gloo/transport/device.h"

namespace ddp::gloo_backend {

// What a rank says about itself when it joins.
struct Member {
  int world_size = 0;
  std::string host;     // the same for ranks that reach each other by the loopback interface
  std::string address;  // on the way to the store; "" where the store doesn't know
};

// The part of `store` for one group. The groups that a rank makes over one store are numbered, so
// that the second of one rank meets the second of the others.
std::shared_ptr<Store> OpenGroupStore(const ProcessGroupOptions& options);

// Says who this rank is and waits for the others. Throws TimeoutError ("1 of 3 ranks joined within
// 2 s; missing: ranks 1, 2") and MismatchError where ranks disagree about the world's size.
std::vector<Member> MeetMembers(Store& store, const ProcessGroupOptions& options,
                                Deadline deadline);

// The address on which peers can reach this rank: on a single host the loopback interface, else
// the one that leads to the store or to a peer. Throws std::invalid_argument where there is only a
// loopback address for peers on other hosts.
std::string ChooseAddress(const std::vector<Member>& members, int rank);

// Connections to all peers, in the order in which they are made; they must end the other way round.
struct Connections {
  std::unique_ptr<LoopTicker> ticker;
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
};

// Connects to every other rank. Throws TimeoutError and PeerLostError. A rank that fails here tells
// its peers, who then fail for the same reason, at once.
Connections Connect(Store& store, const std::vector<Member>& members,
                    const ProcessGroupOptions& options, Deadline deadline);

}  // namespace ddp::gloo_backend
