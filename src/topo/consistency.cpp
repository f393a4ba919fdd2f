#include "topo/consistency.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/quantity.hpp"

namespace ho {
namespace {

constexpr size_t kMaxHostsNamed = 8;
constexpr const char* kNotKnown = "(not known to it)";

using RanksByValue = std::map<std::string, std::vector<uint32_t>>;

std::string value_of(const RankInfo& info, const std::string& name) {
  const auto found = std::ranges::find_if(
      info.settings, [&](const Setting& setting) { return setting.name == name; });
  return found == info.settings.end() ? kNotKnown : found->value;
}

std::string escaped(const std::string& value) {
  return value.empty() ? "(empty)" : value;
}

// "rank 3", "ranks 0-3, 7"
std::string rank_list(const std::vector<uint32_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges_text(ranks, ", ");
}

std::string host_list(std::span<const RankInfo> infos, const std::vector<uint32_t>& ranks) {
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  for (const uint32_t rank : ranks) {
    if (seen.insert(infos[rank].host_name).second) {
      hosts.push_back(infos[rank].host_name);
    }
  }
  std::string text;
  for (size_t i = 0; i < std::min(hosts.size(), kMaxHostsNamed); ++i) {
    text += (i == 0 ? "" : ", ") + hosts[i];
  }
  if (hosts.size() > kMaxHostsNamed) {
    text += " and " + std::to_string(hosts.size() - kMaxHostsNamed) + " more hosts";
  }
  return text;
}

// Most ranks; of equally many, those of the lowest rank.
const RanksByValue::value_type& majority(const RanksByValue& values) {
  return *std::ranges::max_element(values, [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                              : a.second.front() > b.second.front();
  });
}

// "sizes 2, 2", "rates 9GB, 1GB" of "sizes 2, 2; rates 9GB, 1GB"
std::vector<std::string_view> fields_of(std::string_view value) {
  std::vector<std::string_view> fields;
  constexpr std::string_view kBetween = "; ";
  for (size_t end = 0; end != std::string_view::npos;) {
    end = value.find(kBetween);
    fields.push_back(value.substr(0, end));
    value.remove_prefix(end == std::string_view::npos ? value.size() : end + kBetween.size());
  }
  return fields;
}

// Of a value with several fields, those in which any of the values differs; of others all.
std::string unlike_fields(const std::string& value, const RanksByValue& values) {
  const auto own = fields_of(value);
  std::vector<bool> unlike(own.size());
  for (const auto& [other, ranks] : values) {
    const auto fields = fields_of(other);
    if (fields.size() != own.size()) {
      return escaped(value);
    }
    for (size_t at = 0; at < own.size(); ++at) {
      unlike[at] = unlike[at] || fields[at] != own[at];
    }
  }
  std::string text;
  for (size_t at = 0; at < own.size(); ++at) {
    if (unlike[at]) {
      text += (text.empty() ? "" : "; ") + std::string(own[at]);
    }
  }
  return escaped(text);
}

std::string difference(std::span<const RankInfo> infos, const std::string& name) {
  RanksByValue values;
  for (uint32_t rank = 0; rank < infos.size(); ++rank) {
    values[value_of(infos[rank], name)].push_back(rank);
  }
  if (values.size() < 2) {
    return "";
  }
  const auto& [usual, usual_ranks] = majority(values);
  std::string text;
  for (const auto& [value, ranks] : values) {
    if (value != usual) {
      text += (text.empty() ? "" : "; ") + rank_list(ranks) + " (" + host_list(infos, ranks) +
              "): " + name + "=" + unlike_fields(value, values);
    }
  }
  return text + "; " +
         (usual_ranks.size() == 1
              ? rank_list(usual_ranks) + " (" + host_list(infos, usual_ranks) + ") has "
              : std::to_string(usual_ranks.size()) + " ranks have ") +
         unlike_fields(usual, values);
}

}  // namespace

Status check_consistency(std::span<const RankInfo> infos) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  const std::vector<Setting>* previous = nullptr;
  for (const RankInfo& info : infos) {
    if (previous != nullptr && *previous == info.settings) {
      continue;
    }
    previous = &info.settings;
    for (const Setting& setting : info.settings) {
      if (seen.insert(setting.name).second) {
        names.push_back(setting.name);
      }
    }
  }
  std::string text;
  for (const std::string& name : names) {
    const std::string one = difference(infos, name);
    if (!one.empty()) {
      text += (text.empty() ? "" : ". ") + one;
    }
  }
  if (text.empty()) {
    return {};
  }
  return {StatusCode::kMismatch,
          "the ranks' settings differ: " + text + ". Give all ranks the same values"};
}

}  // namespace ho
