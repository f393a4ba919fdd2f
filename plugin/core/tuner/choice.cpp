#include "core/tuner/choice.hpp"

#include <algorithm>

namespace ho::plugin {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, kTunedCollectiveCount> kCollectiveNames{
    "all_reduce", "all_gather", "reduce_scatter"};
constexpr std::array<std::string_view, kChoiceCount> kChoiceNames{"default",
                                                                  "ring",
                                                                  "tree",
                                                                  "collnet_direct",
                                                                  "collnet_chain",
                                                                  "nvls",
                                                                  "nvls_tree",
                                                                  "pat",
                                                                  "own"};

template <typename Value, size_t count>
std::optional<Value> parse(const std::array<std::string_view, count>& names,
                           std::string_view text) {
  const auto* const found = std::ranges::find(names, text);
  if (found == names.end()) {
    return std::nullopt;
  }
  return static_cast<Value>(found - names.begin());
}

}  // namespace

bool can_be(TunedCollective collective, Choice choice) {
  const bool reduces_all = collective == TunedCollective::kAllReduce;
  switch (choice) {
    case Choice::kTree:
    case Choice::kCollNetChain:
    case Choice::kNvlsTree:
      return reduces_all;
    case Choice::kPat:
      return !reduces_all;
    default:
      return true;
  }
}

std::string_view to_string(TunedCollective collective) {
  return kCollectiveNames[static_cast<size_t>(collective)];
}

std::string_view to_string(Choice choice) {
  return kChoiceNames[static_cast<size_t>(choice)];
}

std::optional<TunedCollective> parse_tuned_collective(std::string_view text) {
  return parse<TunedCollective>(kCollectiveNames, text);
}

std::optional<Choice> parse_choice(std::string_view text) {
  return parse<Choice>(kChoiceNames, text);
}

}  // namespace ho::plugin
