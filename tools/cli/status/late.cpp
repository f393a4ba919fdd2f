#include "cli/status/late.hpp"

#include <algorithm>
#include <optional>

namespace ho {
namespace {

constexpr double kNs = 1e9;  // a second

// The upper one of two.
double middle(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, at);
  return *at;
}

// How long each rank was in the call; nothing: some have not completed it, or forgotten it.
std::optional<std::vector<double>> seconds_in(const std::pair<uint32_t, uint64_t>& call,
                                              const std::vector<const RecentCalls*>& ranks) {
  std::vector<double> seconds;
  for (const RecentCalls* rank : ranks) {
    const auto found = rank->ns.find(call);
    if (found == rank->ns.end()) {
      return std::nullopt;
    }
    seconds.push_back(static_cast<double>(found->second) / kNs);
  }
  return seconds;
}

std::optional<Lateness> lateness(const std::vector<const RecentCalls*>& ranks) {
  std::vector<double> calls;
  std::vector<std::vector<double>> late(ranks.size());
  for (const auto& [call, ns] : ranks.front()->ns) {
    const auto seconds = seconds_in(call, ranks);
    if (!seconds) {
      continue;
    }
    calls.push_back(middle(*seconds));
    for (size_t i = 0; i < ranks.size(); ++i) {
      late[i].push_back(calls.back() - (*seconds)[i]);
    }
  }
  if (ranks.size() < 2 || calls.size() < Lateness::kMinCalls) {
    return std::nullopt;
  }
  Lateness result{ranks.front()->key, ranks.front()->where, calls.size(), middle(calls)};
  for (size_t i = 0; i < ranks.size(); ++i) {
    result.late_s[ranks[i]->rank] = middle(late[i]);
  }
  result.last = std::ranges::max_element(result.late_s, {}, [](const auto& each) {
                  return each.second;
                })->first;
  return result;
}

}  // namespace

std::vector<Lateness> lateness_of(const std::vector<RecentCalls>& all) {
  std::map<std::string, std::vector<const RecentCalls*>> by_communicator;
  for (const RecentCalls& each : all) {
    by_communicator[each.key].push_back(&each);
  }
  std::vector<Lateness> results;
  for (const auto& [key, ranks] : by_communicator) {
    if (auto one = lateness(ranks)) {
      results.push_back(*std::move(one));
    }
  }
  return results;
}

}  // namespace ho
