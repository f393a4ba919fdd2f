#include "topo/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include "base/quantity.hpp"
#include "topo/address.hpp"

namespace ho {
namespace {

std::optional<std::string> read_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) {
    return std::nullopt;
  }
  return word;
}

std::optional<int64_t> read_number(const std::string& path) {
  const auto word = read_word(path);
  return word ? whole_number<int64_t>(*word) : std::nullopt;
}

// getifaddrs hands out sockaddrs of several families behind one pointer type; memcpy is the cast
// that is always defined.
template <typename Address>
Address address_as(const sockaddr* generic) {
  Address address{};
  std::memcpy(&address, generic, sizeof(address));
  return address;
}

template <size_t N>
uint32_t prefix_length(const std::array<uint8_t, N>& mask) {
  uint32_t bits = 0;
  for (const uint8_t byte : mask) {
    bits += static_cast<uint32_t>(std::popcount(byte));
  }
  return bits;
}

// "10.1.0.1/24"; without a mask the address alone is the network.
template <typename Socket, typename Address>
std::string address_text(const ifaddrs& entry, Address Socket::*part) {
  const Address address = address_as<Socket>(entry.ifa_addr).*part;
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(entry.ifa_addr->sa_family, &address, text.data(), text.size());
  std::array<uint8_t, sizeof(Address)> mask{};
  mask.fill(0xff);
  if (entry.ifa_netmask != nullptr) {
    mask = std::bit_cast<decltype(mask)>(address_as<Socket>(entry.ifa_netmask).*part);
  }
  return std::string(text.data()) + "/" + std::to_string(prefix_length(mask));
}

std::string hardware_text(const sockaddr_ll& link) {
  std::string text;
  const size_t count = std::min<size_t>(link.sll_halen, sizeof(link.sll_addr));
  for (size_t i = 0; i < count; ++i) {
    std::array<char, 4> byte{};
    std::snprintf(byte.data(), byte.size(), "%02x", static_cast<unsigned>(link.sll_addr[i]));
    text += (i == 0 ? "" : ":") + std::string(byte.data());
  }
  return text;
}

struct Found {
  NetworkInterface interface;
  LinkIdentity identity;
  bool administratively_up = false;
};

void add_entry(const ifaddrs& entry, Found& found) {
  found.interface.name = entry.ifa_name;
  found.interface.loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  found.administratively_up = (entry.ifa_flags & IFF_UP) != 0;
  const bool running = found.administratively_up && (entry.ifa_flags & IFF_RUNNING) != 0;
  found.interface.operstate = running ? "up" : "down";
  if (entry.ifa_addr == nullptr) {
    return;
  }
  switch (entry.ifa_addr->sa_family) {
    case AF_PACKET: {
      const auto link = address_as<sockaddr_ll>(entry.ifa_addr);
      found.identity.index = static_cast<uint32_t>(link.sll_ifindex);
      found.identity.hardware_address = hardware_text(link);
      return;
    }
    case AF_INET:
      found.interface.addresses.push_back(address_text(entry, &sockaddr_in::sin_addr));
      return;
    case AF_INET6:
      found.interface.addresses.push_back(address_text(entry, &sockaddr_in6::sin6_addr));
      return;
    default:
      return;
  }
}

bool is_link_local(const std::string& text) {
  const auto address = parse_interface_address(text);
  return address && address->link_local;
}

// Every interface with IPv6 has a link-local address: it counts where there is no other.
void keep_link_local_alone(std::vector<std::string>& addresses) {
  if (!std::ranges::all_of(addresses, is_link_local)) {
    std::erase_if(addresses, is_link_local);
  }
}

constexpr std::string_view kPciShape = "hhhh:hh:hh.h";

bool is_pci_address(std::string_view text) {
  if (text.size() != kPciShape.size()) {
    return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const bool hex = std::isxdigit(static_cast<unsigned char>(text[i])) != 0;
    if (kPciShape[i] == 'h' ? !hex : text[i] != kPciShape[i]) {
      return false;
    }
  }
  return true;
}

// The device link of a virtio interface names the virtio device; its PCI device is further up.
void add_pci(const std::string& entry, NetworkInterface& interface) {
  std::error_code error;
  auto device = std::filesystem::canonical(entry + "/device", error);
  while (!error && device.has_relative_path() && !is_pci_address(device.filename().string())) {
    device = device.parent_path();
  }
  if (error || !device.has_relative_path()) {
    return;
  }
  interface.pci = device.filename().string();
  interface.numa_node =
      static_cast<int32_t>(read_number(device.string() + "/numa_node").value_or(-1));
}

bool is_there(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator entry(folder, error); !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

// A device of its own, or below it: a bond's or a VLAN's is one of those that it lies on.
bool has_device(const std::string& interfaces, const std::string& name, int depth = 0) {
  constexpr int kDeepest = 4;
  constexpr std::string_view kBelow = "lower_";
  const std::string entry = interfaces + name;
  if (is_there(entry + "/device")) {
    return true;
  }
  if (depth == kDeepest) {
    return false;
  }
  const std::vector<std::string> links = names_in(entry);
  return std::ranges::any_of(links, [&](const std::string& link) {
    return link.starts_with(kBelow) &&
           has_device(interfaces, link.substr(kBelow.size()), depth + 1);
  });
}

Reach reach_of(const std::string& interfaces, const std::string& name) {
  const std::string entry = interfaces + name;
  if (is_there(entry + "/bridge")) {
    const std::vector<std::string> ports = names_in(entry + "/brif");
    const bool leads_out = std::ranges::any_of(
        ports, [&](const std::string& port) { return has_device(interfaces, port); });
    return leads_out ? Reach::kNetwork : Reach::kThisHost;
  }
  if (is_there(entry + "/tun_flags")) {
    return Reach::kThisHost;
  }
  return has_device(interfaces, name) ? Reach::kNetwork : Reach::kUnknown;
}

}  // namespace

bool add_from_sysfs(const std::string& sysfs_root,
                    const LinkIdentity& identity,
                    NetworkInterface& interface) {
  const std::string interfaces = sysfs_root + "/class/net/";
  const std::string entry = interfaces + interface.name;
  const auto index = read_number(entry + "/ifindex");
  const std::string hardware = read_word(entry + "/address").value_or("");
  // Long hardware addresses (InfiniBand) are shortened by the kernel: the part given must agree.
  if (!index || *index != static_cast<int64_t>(identity.index) ||
      hardware.compare(0, identity.hardware_address.size(), identity.hardware_address) != 0) {
    return false;
  }
  interface.operstate = read_word(entry + "/operstate").value_or(interface.operstate);
  const int64_t speed = read_number(entry + "/speed").value_or(0);
  interface.speed_mbit = speed > 0 ? static_cast<uint64_t>(speed) : 0;
  interface.reach = reach_of(interfaces, interface.name);
  add_pci(entry, interface);
  return true;
}

Result<std::vector<NetworkInterface>> live_interfaces(const std::string& sysfs_root) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return system_error("getifaddrs(), for the interfaces of this host", errno);
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::map<std::string, Found> by_name;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_name != nullptr) {
      add_entry(*entry, by_name[entry->ifa_name]);
    }
  }
  std::vector<NetworkInterface> interfaces;
  for (auto& [name, found] : by_name) {
    add_from_sysfs(sysfs_root, found.identity, found.interface);
    if (!found.administratively_up) {
      found.interface.operstate = "down";
    }
    keep_link_local_alone(found.interface.addresses);
    interfaces.push_back(std::move(found.interface));
  }
  std::ranges::sort(interfaces,
                    [](const auto& a, const auto& b) { return natural_less(a.name, b.name); });
  return interfaces;
}

}  // namespace ho
