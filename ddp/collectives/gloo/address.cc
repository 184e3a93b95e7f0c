#include "ddp/collectives/gloo/address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "ddp/store/interfaces.h"
#include "ddp/store/socket.h"

namespace ddp {
namespace {

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

// The address for all peers where nobody named an interface.
std::string AddressTowardsPeers(const std::vector<Member>& members, int rank) {
  const Member& self = members[rank];
  const auto on_this_host = [&](const Member& member) { return member.host == self.host; };
  // Whoever reaches the store by the loopback interface shares it with the store.
  const auto by_loopback = [](const Member& member) { return IsLoopback(member.address); };
  if (std::ranges::all_of(members, on_this_host) || std::ranges::all_of(members, by_loopback)) {
    return "127.0.0.1";
  }
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

}  // namespace

std::string ChooseAddress(const Meeting& meeting) {
  return meeting.options.interface.empty()
             ? AddressTowardsPeers(meeting.members, meeting.rank())
             : ChooseInterface(ListInterfaces(), meeting.options.interface);
}

}  // namespace ddp
