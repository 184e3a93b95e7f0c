#include "ddp/store/interfaces.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <stdexcept>

#include "ddp/store/socket.h"

namespace ddp {
namespace {

struct FreeInterfaces {
  void operator()(ifaddrs* list) const { freeifaddrs(list); }
};

std::string NumericHost(const sockaddr* address) {
  char host[NI_MAXHOST] = "";
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

}  // namespace

std::vector<InterfaceAddress> ListInterfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) ThrowSystemError(errno, "can't list the network interfaces");
  const std::unique_ptr<ifaddrs, FreeInterfaces> owner(list);
  std::vector<InterfaceAddress> interfaces;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      interfaces.push_back({entry->ifa_name, NumericHost(entry->ifa_addr)});
    }
  }
  return interfaces;
}

std::string ChooseInterface(const std::vector<InterfaceAddress>& interfaces,
                            const std::string& wanted) {
  auto found = std::ranges::find(interfaces, wanted, &InterfaceAddress::name);
  if (found == interfaces.end()) {
    found = std::ranges::find(interfaces, wanted, &InterfaceAddress::address);
  }
  if (found == interfaces.end() && !wanted.empty()) {
    found = std::ranges::find_if(interfaces,
                                 [&](const auto& each) { return each.name.starts_with(wanted); });
  }
  if (found != interfaces.end()) return found->address;
  std::set<std::string> known;
  for (const InterfaceAddress& each : interfaces) known.insert(each.name);
  throw std::invalid_argument(fmt::format("no network interface '{}' with an address; there are {}",
                                          wanted, fmt::join(known, ", ")));
}

}  // namespace ddp
