#include "ddp/collectives/gloo/rendezvous.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "ddp/collectives/failure.h"
#include "ddp/store/prefix_store.h"
#include "gloo/common/error.h"
#include "gloo/transport/address.h"
#include "gloo/transport/pair.h"
#include "gloo/transport/tcp/attr.h"
#include "gloo/transport/tcp/device.h"

namespace ddp::gloo_backend {
namespace {

std::string MemberKey(int rank) { return fmt::format("member/{}", rank); }
std::string AddressKey(int rank) { return fmt::format("address/{}", rank); }

std::string Encode(const Member& member) {
  return fmt::format("{}\n{}\n{}\n", member.world_size, member.host, member.address);
}

Member DecodeMember(const std::string& text) {
  std::istringstream lines(text);
  Member member;
  lines >> member.world_size;
  lines.ignore();
  std::getline(lines, member.host);
  std::getline(lines, member.address);
  return member;
}

// The same for processes of one boot of one machine in one network namespace.
std::string HostId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  file >> boot_id;
  char network[64] = "";
  [[maybe_unused]] const ssize_t size = readlink("/proc/self/ns/net", network, sizeof network - 1);
  return boot_id + " " + network;
}

bool IsReachableFromOutside(const std::string& address) {
  return !address.empty() && !IsLoopback(address);
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses Resolve(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  return Addresses(getaddrinfo(host.c_str(), "9", &hints, &list) == 0 ? list : nullptr);
}

// This machine's address on the way to `host`; "" when there is no way. Sends nothing.
std::string AddressTowards(const std::string& host) {
  const Addresses addresses = Resolve(host);
  if (addresses == nullptr) return "";
  const FileDescriptor probe(socket(addresses->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), addresses->ai_addr, addresses->ai_addrlen) != 0) return "";
  return LocalHost(probe.get());
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

// Says who hasn't joined.
[[noreturn]] void ThrowMissing(Store& store, const ProcessGroupOptions& options) {
  std::vector<int> missing;
  for (int rank = 0; rank < options.world_size; ++rank) {
    if (!store.Check({MemberKey(rank)}, std::chrono::seconds(1))) missing.push_back(rank);
  }
  throw TimeoutError(fmt::format("{} of {} ranks joined within {}; missing: {}",
                                 options.world_size - missing.size(), options.world_size,
                                 FormatSeconds(options.timeout), FormatRanks(missing)));
}

void CheckWorldSize(const ProcessGroupOptions& options, int rank, const Member& member) {
  if (member.world_size == options.world_size) return;
  throw MismatchError(fmt::format("rank {} joined a world of {}, rank {} one of {}", options.rank,
                                  options.world_size, rank, member.world_size));
}

struct FreeInterfaces {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

// The first address of an interface, an IPv4 one if there is one.
std::string AddressOfInterface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) ThrowSystemError(errno, "can't list the network interfaces");
  const std::unique_ptr<ifaddrs, FreeInterfaces> interfaces(list);
  std::set<std::string> known;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      known.insert(entry->ifa_name);
      if (entry->ifa_name != name) continue;
      char host[NI_MAXHOST] = "";
      const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      getnameinfo(entry->ifa_addr, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
      return host;
    }
  }
  throw std::invalid_argument(fmt::format("no network interface '{}' with an address; there are {}",
                                          name, fmt::join(known, ", ")));
}

std::shared_ptr<gloo::transport::Device> CreateDevice(const std::string& address) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = address;
  try {
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& error) {
    throw std::invalid_argument(fmt::format("can't listen on {}: {}", address, error.what()));
  }
}

// Each connection has a listener of its own; a rank's addresses are one after the other, by peer.
std::string Listen(gloo::transport::Context& context) {
  std::string addresses;
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer == context.rank) continue;
    const std::vector<char> address = context.createPair(peer)->address().bytes();
    addresses.append(address.begin(), address.end());
  }
  return addresses;
}

// Where rank `peer` listens for `rank`.
std::vector<char> AddressFor(int rank, int peer, int size, const std::string& addresses) {
  const size_t num_bytes = addresses.size() / (size - 1);
  const size_t index = rank < peer ? rank : rank - 1;
  const auto begin = addresses.begin() + static_cast<int64_t>(index * num_bytes);
  return {begin, begin + static_cast<int64_t>(num_bytes)};
}

void ConnectTo(gloo::transport::Context& context, int peer, const std::string& addresses,
               Deadline deadline) {
  try {
    context.getPair(peer)->connect(AddressFor(context.rank, peer, context.size, addresses));
  } catch (const std::exception& error) {
    if (TimeLeft(deadline) == Duration::zero()) {
      throw TimeoutError(fmt::format("rank {} joined, but didn't connect in time", peer));
    }
    throw PeerLostError(fmt::format("no connection to rank {}: {}", peer, error.what()), peer);
  }
}

// Instead of addresses, of a rank that can't be reached.
constexpr char kNowhere[] = "";

// Peers that wait for this rank's addresses needn't wait on.
void TellPeers(Store& store, int rank, const Failure& failure) {
  AgreeOnFailure(store, failure);
  try {
    store.Set(AddressKey(rank), kNowhere, std::chrono::seconds(1));
  } catch (const std::exception&) {
    // Without a store there is no way to tell them.
  }
}

// Where each rank listens. Nobody connects before all have said it: a rank that fails until then
// leaves no peer behind in the middle of connecting.
std::vector<std::string> ExchangeAddresses(Store& store, const std::string& mine,
                                           const ProcessGroupOptions& options, Deadline deadline) {
  store.Set(AddressKey(options.rank), mine, TimeLeft(deadline));
  std::vector<std::string> addresses;
  for (int rank = 0; rank < options.world_size; ++rank) {
    addresses.push_back(store.Get(AddressKey(rank), TimeLeft(deadline)));
    if (addresses.back() != kNowhere) continue;
    const Failure cause =
        AgreeOnFailure(store, {Failure::Kind::kPeerLost, rank, "it could not join"});
    throw PeerLostError(cause.Describe(), cause.rank);
  }
  return addresses;
}

Connections ConnectToAll(Store& store, const std::vector<Member>& members,
                         const ProcessGroupOptions& options, Deadline deadline) {
  Connections connections;
  connections.ticker = std::make_unique<LoopTicker>();
  connections.device =
      CreateDevice(options.interface.empty() ? ChooseAddress(members, options.rank)
                                             : AddressOfInterface(options.interface));
  connections.ticker->Attach(dynamic_cast<gloo::transport::tcp::Device&>(*connections.device));
  connections.context = connections.device->createContext(options.rank, options.world_size);
  gloo::transport::Context& context = *connections.context;
  // Gloo waits five times as long for a connection.
  context.setTimeout(std::chrono::milliseconds(MillisecondsLeft(deadline) / 5 + 1));

  const std::vector<std::string> addresses =
      ExchangeAddresses(store, Listen(context), options, deadline);
  for (int peer = 0; peer < options.world_size; ++peer) {
    if (peer == options.rank) continue;
    connections.ticker->Start();
    ConnectTo(context, peer, addresses[peer], deadline);
  }
  return connections;
}

}  // namespace

std::shared_ptr<Store> OpenGroupStore(const ProcessGroupOptions& options) {
  const int64_t number =
      options.store->Add(fmt::format("gloo/groups/{}", options.rank), 1, options.timeout);
  return std::make_shared<PrefixStore>(fmt::format("gloo/{}/", number), options.store);
}

std::vector<Member> MeetMembers(Store& store, const ProcessGroupOptions& options,
                                Deadline deadline) {
  std::vector<std::string> keys;
  for (int rank = 0; rank < options.world_size; ++rank) keys.push_back(MemberKey(rank));
  store.Set(keys[options.rank], Encode({options.world_size, HostId(), store.local_address()}),
            TimeLeft(deadline));
  // One after the other: a disagreement with one needn't wait for the next.
  std::vector<Member> members;
  try {
    for (const std::string& key : keys) {
      members.push_back(DecodeMember(store.Get(key, TimeLeft(deadline))));
      CheckWorldSize(options, static_cast<int>(members.size()) - 1, members.back());
    }
  } catch (const TimeoutError&) {
    ThrowMissing(store, options);
  }
  return members;
}

std::string ChooseAddress(const std::vector<Member>& members, int rank) {
  const Member& self = members[rank];
  const auto on_this_host = [&](const Member& member) { return member.host == self.host; };
  if (std::ranges::all_of(members, on_this_host)) return "127.0.0.1";
  if (IsReachableFromOutside(self.address)) return self.address;
  // The store is on this host: a peer's way to it shows the network that joins us.
  for (const Member& member : members) {
    if (on_this_host(member) || !IsReachableFromOutside(member.address)) continue;
    const std::string address = AddressTowards(member.address);
    if (IsReachableFromOutside(address)) return address;
  }
  const std::string address = AddressTowards(HostName());
  if (IsReachableFromOutside(address)) return address;
  throw std::invalid_argument(fmt::format(
      "peers on other hosts can't reach this one: '{}' has no address but {}; name the interface "
      "to use",
      HostName(), address.empty() ? "none" : address));
}

Connections Connect(Store& store, const std::vector<Member>& members,
                    const ProcessGroupOptions& options, Deadline deadline) {
  try {
    return ConnectToAll(store, members, options, deadline);
  } catch (const PeerLostError& error) {
    TellPeers(store, options.rank, {Failure::Kind::kPeerLost, error.peer(), error.what()});
    throw;
  } catch (const std::exception& error) {
    TellPeers(store, options.rank, {Failure::Kind::kAborted, options.rank, error.what()});
    throw;
  }
}

}  // namespace ddp::gloo_backend
