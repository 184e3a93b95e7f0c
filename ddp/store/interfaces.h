// This machine's network interfaces.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ddp {

struct InterfaceAddress {
  std::string name;     // "eth0"
  std::string address;  // "10.0.0.7", "fe80::1%eth0"
};

// All that have an address, IPv4 first. Throws std::system_error when the system doesn't tell.
std::vector<InterfaceAddress> ListInterfaces();

// The address that `wanted` stands for: an interface's name, one of its addresses, or the beginning
// of a name, each in this order and IPv4 first. Throws std::invalid_argument that lists the names.
std::string ChooseInterface(const std::vector<InterfaceAddress>& interfaces,
                            const std::string& wanted);

}  // namespace ddp
