#include "topo/nic_kind.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

namespace ho {
namespace {

bool is_fabric(std::string_view kind) {
  constexpr std::array kBeginnings{"ib", "hsi", "hsn"};
  return std::ranges::any_of(kBeginnings,
                             [&](const char* beginning) { return kind.starts_with(beginning); });
}

using Counts = std::map<std::string, size_t>;

Counts counts_of(const std::vector<std::string>& names) {
  Counts counts;
  for (const std::string& name : names) {
    ++counts[kind_of(name)];
  }
  return counts;
}

// How many NICs of a kind every host has; none of the kinds that a host lacks.
Counts on_every_host(const std::vector<std::vector<std::string>>& hosts) {
  Counts common = counts_of(hosts.front());
  for (const auto& names : hosts) {
    Counts here = counts_of(names);
    for (auto& [kind, count] : common) {
      count = std::min(count, here[kind]);
    }
  }
  std::erase_if(common, [](const auto& entry) { return entry.second == 0; });
  return common;
}

}  // namespace

std::string kind_of(std::string_view interface_name) {
  std::string kind;
  for (const char c : interface_name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit || !kind.ends_with('#')) {
      kind += digit ? '#' : c;
    }
  }
  return kind;
}

std::set<std::string> kinds_for_rails(const std::vector<std::vector<std::string>>& hosts) {
  if (hosts.empty()) {
    return {};
  }
  Counts common = on_every_host(hosts);
  const bool any_fabric =
      std::ranges::any_of(common, [](const auto& entry) { return is_fabric(entry.first); });
  size_t most = 0;
  for (const auto& [kind, count] : common) {
    most = any_fabric && !is_fabric(kind) ? most : std::max(most, count);
  }
  std::set<std::string> best;
  for (const auto& [kind, count] : common) {
    if (count == most && (!any_fabric || is_fabric(kind))) {
      best.insert(kind);
    }
  }
  return any_fabric || best.size() == 1 ? best : std::set<std::string>();
}

}  // namespace ho
