#include "bench/paro_bench/systems.hpp"

#include <algorithm>

namespace paro::bench {
namespace {

constexpr std::string_view kRingSuffix = "/ring";

ho::Status unknown(std::string_view name, const std::string& why) {
  std::string names;
  for (const System& baseline : baselines()) {
    names += baseline.name + ", ";
  }
  return ho::invalid("--systems: '" + std::string(name) + "': " + why +
                     "; takes letters (IIG, IIG/ring), " + names + "ours, baselines, all");
}

ho::Result<System> ours(std::string_view name) {
  System system;
  std::string_view text = name;
  if (text.ends_with(kRingSuffix)) {
    system.world = WorldAlgorithm::kMultiRing;
    text.remove_suffix(kRingSuffix.size());
  }
  constexpr size_t kLetters = 3;
  if (text.size() != kLetters) {  // names are for baselines
    return unknown(name, "is no system that is known here");
  }
  const auto strategy = parse_strategy(text);
  if (!strategy.ok()) {
    return unknown(name, strategy.status().message());
  }
  system.strategy = *strategy;
  system.name = letters(*strategy);
  if (system.world == WorldAlgorithm::kMultiRing) {
    system.name += kRingSuffix;
  }
  return system;
}

ho::Result<std::vector<System>> named(std::string_view name) {
  std::vector<System> all;
  if (name == "ours" || name == "all") {
    for (const Strategy& strategy : all_strategies()) {
      all.push_back({letters(strategy), strategy});
    }
  }
  if (name == "baselines" || name == "all") {
    all.insert(all.end(), baselines().begin(), baselines().end());
  }
  if (!all.empty()) {
    return all;
  }
  const auto known = std::ranges::find(baselines(), name, &System::name);
  if (known != baselines().end()) {
    return std::vector<System>{*known};
  }
  HORING_ASSIGN(const System system, ours(name));
  return std::vector<System>{system};
}

}  // namespace

const std::vector<System>& baselines() {
  static const std::vector<System> all = [] {
    std::vector<System> made;
    for (const char* const name : {"ddp", "zero1", "zero2", "zero3", "mics", "hsdp", "hpz"}) {
      // libparo knows by these names how the states are split.
      made.push_back({name, *parse_strategy(name), WorldAlgorithm::kMultiRing, true});
      made.back().syncs_each_micro_batch = made.back().name == "hsdp";
    }
    return made;
  }();
  return all;
}

ho::Result<std::vector<System>> parse_systems(std::string_view text) {
  std::vector<System> all;
  while (true) {
    const size_t comma = text.find(',');
    HORING_ASSIGN(const std::vector<System> some, named(text.substr(0, comma)));
    for (const System& system : some) {
      if (std::ranges::find(all, system.name, &System::name) == all.end()) {
        all.push_back(system);
      }
    }
    if (comma == std::string_view::npos) {
      return all;
    }
    text.remove_prefix(comma + 1);
  }
}

}  // namespace paro::bench
