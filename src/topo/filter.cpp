#include "topo/filter.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>

#include "base/env.hpp"

namespace ho {
namespace {

constexpr std::string_view kDroppedForState = "dropped: operstate ";
constexpr const char* kWithoutAddress = ", no address";

// How gladly the default takes an interface; a worse class serves only where no better one can.
enum class DefaultClass : uint8_t { kOrdinary = 0, kLocalBridge = 1, kLoopback = 2 };

bool local_bridge(std::string_view name) {
  return name.starts_with("docker") || name.starts_with("virbr");
}

DefaultClass default_class(const NetworkInterface& interface) {
  if (interface.loopback || interface.name == "lo") {
    return DefaultClass::kLoopback;
  }
  return local_bridge(interface.name) ? DefaultClass::kLocalBridge : DefaultClass::kOrdinary;
}

bool listed(const InterfaceFilter& filter, std::string_view name) {
  return std::any_of(filter.names.begin(), filter.names.end(), [&](const std::string& entry) {
    return filter.exact ? name == entry : name.starts_with(entry);
  });
}

// What no filter can mend.
std::optional<std::string> unusable(const NetworkInterface& interface) {
  if (interface.operstate == "absent") {
    return "dropped: the topology file has it, this host's network namespace does not";
  }
  if (interface.operstate != "up" && interface.operstate != "unknown") {
    return std::string(kDroppedForState) + interface.operstate +
           (interface.addresses.empty() ? kWithoutAddress : "");
  }
  if (interface.addresses.empty()) {
    return "dropped: no address";
  }
  return std::nullopt;
}

std::string describe_taken(const NetworkInterface& interface, std::string_view because) {
  return "taken: " + std::string(because) + ", " + interface.addresses.front();
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
  return {true, describe_taken(interface, setting + (filter.exclude ? " leaves it" : " lists it"))};
}

}  // namespace

Result<InterfaceFilter> parse_interface_filter(std::string_view text, std::string_view variable) {
  InterfaceFilter filter;
  filter.text = std::string(text);
  filter.variable = std::string(variable);
  if (text.empty()) {
    return filter;
  }
  filter.is_default = false;
  filter.exclude = text.starts_with('^');
  text.remove_prefix(filter.exclude ? 1 : 0);
  filter.exact = text.starts_with('=');
  text.remove_prefix(filter.exact ? 1 : 0);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view name = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const bool odd = std::any_of(name.begin(), name.end(), [](char c) {
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
      const bool ordinary = own == DefaultClass::kOrdinary;
      decisions.push_back(
          {true,
           describe_taken(interface, ordinary ? interface.operstate : "there is nothing better")});
    } else {
      decisions.push_back(
          {false,
           std::string("dropped: ") +
               (own == DefaultClass::kLoopback ? "loopback" : "a bridge local to this host") +
               ", and there are others; " + filter.variable + "=" + interface.name + " takes it"});
    }
  }
  return decisions;
}

bool dropped_for_state(std::string_view reason) {
  return reason.starts_with(kDroppedForState);
}

bool was_configured(std::string_view name, std::string_view reason) {
  return !reason.ends_with(kWithoutAddress) && name != "lo" && !local_bridge(name);
}

}  // namespace ho
