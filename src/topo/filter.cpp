#include "topo/filter.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>

#include "base/env.hpp"
#include "base/names.hpp"
#include "base/quantity.hpp"
#include "topo/address.hpp"

namespace ho {
namespace {

constexpr std::string_view kDroppedForState = "dropped: operstate ";
constexpr const char* kWithoutAddress = ", no address";
constexpr const char* kOfThisHost = ", inside this host";

// How gladly the default takes an interface; a worse class serves only where no better one can.
enum class DefaultClass : uint8_t {
  kOrdinary = 0,
  kLinkLocal = 1,  // up, but nobody gave it an address: it may be in no network of the job
  kVirtual = 2,
  kLoopback = 3
};
constexpr Names<4> kClassTexts = {
    "ordinary",
    "only a link-local address",
    "a bridge or tunnel of this host's containers, virtual machines or programs",
    "loopback"};

bool all_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; });
}

// Bridges, and ends of cables, that container and virtual machine programs make on a host.
bool virtual_name(std::string_view name) {
  constexpr std::array kPrefixes{"docker",
                                 "virbr",
                                 "veth",
                                 "cni",
                                 "flannel",
                                 "podman",
                                 "lxc",
                                 "lxd",
                                 "nerdctl",
                                 "cali",
                                 "cilium",
                                 "tunl",
                                 "vnet"};
  if (std::ranges::any_of(kPrefixes,
                          [&](const char* prefix) { return name.starts_with(prefix); })) {
    return true;
  }
  constexpr size_t kDockerIdBytes = 12;  // of "br-1f2e3d4c5b6a"
  constexpr std::string_view kBridge = "br-";
  if (name.starts_with(kBridge)) {
    name.remove_prefix(kBridge.size());
    return name.size() == kDockerIdBytes && all_hex(name);
  }
  return (name.starts_with("tun") || name.starts_with("tap")) && name.size() > 3 &&
         std::isdigit(static_cast<unsigned char>(name[3])) != 0;
}

bool only_link_local(const NetworkInterface& interface) {
  return std::ranges::all_of(interface.addresses, [](const std::string& text) {
    const auto address = parse_interface_address(text);
    return address && address->link_local;
  });
}

DefaultClass default_class(const NetworkInterface& interface) {
  if (interface.loopback || interface.name == "lo") {
    return DefaultClass::kLoopback;
  }
  if (interface.reach == Reach::kThisHost ||
      (interface.reach == Reach::kUnknown && virtual_name(interface.name))) {
    return DefaultClass::kVirtual;
  }
  return only_link_local(interface) ? DefaultClass::kLinkLocal : DefaultClass::kOrdinary;
}

bool inside_this_host(const NetworkInterface& interface) {
  return default_class(interface) >= DefaultClass::kVirtual;
}

bool listed(const InterfaceFilter& filter, std::string_view name) {
  return filter.names.empty() ||  // as NCCL has it; ours has names
         std::ranges::any_of(filter.names, [&](const std::string& entry) {
           return filter.exact ? name == entry : name.starts_with(entry);
         });
}

// What no filter can mend.
std::optional<std::string> unusable(const NetworkInterface& interface) {
  if (interface.operstate == "absent") {
    return "dropped: the topology file has it, this host's network namespace does not";
  }
  if (interface.operstate != "up" && interface.operstate != "unknown") {
    const char* const note = inside_this_host(interface) ? kOfThisHost : "";
    return std::string(kDroppedForState) + interface.operstate +
           (interface.addresses.empty() ? kWithoutAddress : note);
  }
  if (interface.addresses.empty()) {
    return "dropped: no address";
  }
  return std::nullopt;
}

std::string taken_text(const NetworkInterface& interface, std::string_view because) {
  return "taken: " + std::string(because) + ", " + interface.addresses.front();
}

std::string why_taken(const NetworkInterface& interface, DefaultClass own) {
  if (own == DefaultClass::kOrdinary) {
    return interface.operstate;
  }
  return own == DefaultClass::kLoopback
             ? "there is nothing better, and no other host can be reached over it"
             : "there is nothing better";
}

// "^" and "=" in front of a list.
void take_signs(std::string_view& text, InterfaceFilter& filter) {
  filter.is_default = false;
  filter.exclude = text.starts_with('^');
  text.remove_prefix(filter.exclude ? 1 : 0);
  filter.exact = text.starts_with('=');
  text.remove_prefix(filter.exact ? 1 : 0);
}

InterfaceDecision judge_listed(const NetworkInterface& interface, const InterfaceFilter& filter) {
  const bool in_list = listed(filter, interface.name);
  const std::string setting = filter.variable + "=" + filter.text;
  if (in_list == filter.exclude) {
    return {false, "dropped: " + setting + (filter.exclude ? " excludes it" : " does not list it")};
  }
  if (auto fault = unusable(interface)) {
    return {false, std::move(*fault)};
  }
  return {true, taken_text(interface, setting + (filter.exclude ? " leaves it" : " lists it"))};
}

}  // namespace

InterfaceFilter nccl_interface_filter(std::string_view text) {
  constexpr size_t kMaxNames = 16;
  InterfaceFilter filter;
  filter.text = std::string(text);
  filter.variable = env::kNcclSocketIfname.name;
  if (text.size() <= 1) {
    return filter;
  }
  take_signs(text, filter);
  while (!text.empty() && filter.names.size() < kMaxNames) {
    const std::string_view entry = take_until(text, ',');
    if (const std::string_view name = entry.substr(0, entry.find(':')); !name.empty()) {
      filter.names.emplace_back(name);
    }
  }
  return filter;
}

Result<InterfaceFilter> parse_interface_filter(std::string_view text, std::string_view variable) {
  InterfaceFilter filter;
  filter.text = std::string(text);
  filter.variable = std::string(variable);
  if (text.empty()) {
    return filter;
  }
  take_signs(text, filter);
  while (!text.empty()) {
    const std::string_view name = take_until(text, ',');
    const bool odd = std::ranges::any_of(name, [](char c) {
      return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '/' || c == '^' || c == '=';
    });
    if (odd) {
      return invalid(filter.variable + "=" + filter.text + ": '" + std::string(name) +
                     "' cannot be an interface name; write a list of prefixes (eth,ib), exact "
                     "names (=eth0,eth1), or either to exclude (^docker,lo or ^=eth0)");
    }
    if (!name.empty()) {
      filter.names.emplace_back(name);
    }
  }
  if (filter.names.empty()) {
    return invalid(filter.variable + "=" + filter.text +
                   ": names no interface; name some or unset the variable");
  }
  return filter;
}

Result<InterfaceFilter> interface_filter() {
  return parse_interface_filter(env::text(env::kSocketIfname));
}

std::vector<InterfaceDecision> judge_interfaces(std::span<const NetworkInterface> interfaces,
                                                const InterfaceFilter& filter) {
  std::vector<InterfaceDecision> decisions;
  decisions.reserve(interfaces.size());
  if (!filter.is_default) {
    for (const NetworkInterface& interface : interfaces) {
      decisions.push_back(judge_listed(interface, filter));
    }
    return decisions;
  }
  std::optional<DefaultClass> best;
  for (const NetworkInterface& interface : interfaces) {
    if (!unusable(interface)) {
      best = best ? std::min(*best, default_class(interface)) : default_class(interface);
    }
  }
  for (const NetworkInterface& interface : interfaces) {
    const DefaultClass own = default_class(interface);
    if (auto fault = unusable(interface)) {
      decisions.push_back({false, std::move(*fault)});
    } else if (own == best) {
      decisions.push_back({true, taken_text(interface, why_taken(interface, own))});
    } else {
      decisions.push_back({false,
                           "dropped: " + std::string(name_in(kClassTexts, own)) +
                               ", and there are others; " + filter.variable + "=" + interface.name +
                               " takes it"});
    }
  }
  return decisions;
}

bool dropped_for_state(std::string_view reason) {
  return reason.starts_with(kDroppedForState);
}

bool was_configured(std::string_view reason) {
  return !reason.ends_with(kWithoutAddress) && !reason.ends_with(kOfThisHost);
}

}  // namespace ho
