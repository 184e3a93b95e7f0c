#include "ddp/collectives/gloo/address.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <stdexcept>

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

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
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
  return meeting.options.interface.empty() ? AddressTowardsPeers(meeting.members, meeting.rank())
                                           : AddressOfInterface(meeting.options.interface);
}

}  // namespace ddp
