// What must be set up the same on all ranks: first the settings, as many on all ranks; then, since
// they are as long now, the lists.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "base/hash.hpp"
#include "run/agreement.hpp"
#include "run/runner_config.hpp"

namespace paro {
namespace {

// A setting by its name in paro.h, or one of a list. Its value is a line of any length, what
// matters most first.
struct Entry {
  std::string name;
  std::string value;
};

std::string to_string(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

std::string to_string(ho_algorithm algorithm) {
  constexpr std::array kNames{"HO_ALGORITHM_RING",
                              "HO_ALGORITHM_MULTI_RING",
                              "HO_ALGORITHM_HIERARCHICAL",
                              "HO_ALGORITHM_HO_RING",
                              "HO_ALGORITHM_DIRECT"};
  const auto at = static_cast<size_t>(algorithm);
  return at < kNames.size() ? kNames.at(at) : "HO_ALGORITHM_AUTO";
}

std::string to_string(Scaling scaling) {
  constexpr std::array kNames{"PARO_SCALING_NONE", "PARO_SCALING_STATIC", "PARO_SCALING_DYNAMIC"};
  return kNames.at(static_cast<size_t>(scaling));
}

// As many, and by the same names, for one kind of optimizer.
void add_optimizer(const RunnerConfig& config, std::vector<Entry>& settings) {
  const auto* const adamw = std::get_if<AdamW>(&config.rule);
  const auto* const sgd = std::get_if<Sgd>(&config.rule);
  if (config.optimizer) {
    settings.push_back({"optimizer", "a custom one"});
    settings.push_back({"custom.state_count", std::to_string(config.optimizer_states.size())});
  } else if (adamw != nullptr) {
    settings.push_back({"optimizer", "AdamW"});
    settings.push_back({"adamw.learning_rate", to_string(adamw->learning_rate)});
    settings.push_back({"adamw.beta1", to_string(adamw->beta1)});
    settings.push_back({"adamw.beta2", to_string(adamw->beta2)});
    settings.push_back({"adamw.epsilon", to_string(adamw->epsilon)});
    settings.push_back({"adamw.weight_decay", to_string(adamw->weight_decay)});
  } else if (sgd != nullptr) {
    settings.push_back({"optimizer", "SGD"});
    settings.push_back({"sgd.learning_rate", to_string(sgd->learning_rate)});
    settings.push_back({"sgd.momentum", to_string(sgd->momentum)});
    settings.push_back({"sgd.weight_decay", to_string(sgd->weight_decay)});
  }
}

// The longest list of any optimizer: all ranks compare as many.
constexpr size_t kOptimizerSettings = 6;

std::vector<Entry> settings_of(const RunnerConfig& config) {
  const auto type = [](ho::DType dtype) { return std::string(ho::to_string(dtype)); };
  std::vector<Entry> settings{{"strategy", letters(config.strategy)},
                              {"frozen", std::string(1, letter(config.frozen))},
                              {"the number of units", std::to_string(config.units.size())},
                              {"micro_batches", std::to_string(config.micro_batches)},
                              {"prefetch", std::to_string(config.prefetch)},
                              {"bucket_bytes", std::to_string(config.bucket_bytes)},
                              {"alignment", std::to_string(config.alignment)},
                              {"parameter_dtype", type(config.parameter_dtype)},
                              {"gradient_dtype", type(config.gradient_dtype)},
                              {"narrow_sums", config.narrow_sums ? "1" : "0"},
                              {"fp32_gradients", config.fp32_gradients ? "1" : "0"},
                              {"unchecked_loads", config.unchecked_loads ? "1" : "0"},
                              {"max_norm", to_string(config.max_norm)},
                              {"algorithm", to_string(config.algorithm)},
                              {"place", config.on_device ? "PARO_PLACE_DEVICE" : "PARO_PLACE_HOST"},
                              {"parameter_group_count", std::to_string(config.groups.size())},
                              {"drift_interval", std::to_string(config.drift_interval)}};
  const LossScaleSettings& scale = config.loss_scale;
  const size_t before = settings.size();
  add_optimizer(config, settings);
  settings.resize(before + kOptimizerSettings);
  settings.push_back({"loss_scale.scaling", to_string(scale.scaling)});
  settings.push_back({"loss_scale.initial", to_string(scale.initial)});
  settings.push_back({"loss_scale.growth", to_string(scale.growth)});
  settings.push_back({"loss_scale.backoff", to_string(scale.backoff)});
  settings.push_back({"loss_scale.growth_interval", std::to_string(scale.growth_interval)});
  settings.push_back({"loss_scale.least", to_string(scale.least)});
  settings.push_back({"loss_scale.most", to_string(scale.most)});
  return settings;
}

Entry entry_of(const ho::GroupMap& groups, size_t index) {
  const ho::GlobalRank rank(static_cast<uint32_t>(index));
  return {"groups (group_size, group_file), rank " + std::to_string(index),
          "place " + std::to_string(groups.group_rank_of(rank).value()) + " of group " +
              std::to_string(groups.group_of(rank).value())};
}

Entry entry_of(const std::vector<UnitShape>& units, size_t index) {
  const UnitShape& unit = units[index];
  return {"unit " + std::to_string(index),
          std::to_string(unit.trained) + " trained and " + std::to_string(unit.frozen) +
              " frozen elements" +
              (unit.shares ? ", sharing those of unit " + std::to_string(*unit.shares) : "") +
              ", called \"" + unit.name + "\""};
}

Entry entry_of(const std::vector<ParameterGroup>& groups, size_t index) {
  const ParameterGroup& group = groups[index];
  return {"parameter_groups[" + std::to_string(index) + "]",
          "unit " + std::to_string(group.unit) + ", first_element " +
              std::to_string(group.range.begin) + ", count " + std::to_string(group.range.count()) +
              ", learning_rate_factor " + to_string(group.rate_factor) + ", weight_decay " +
              to_string(group.weight_decay)};
}

Entry entry_of(const std::vector<std::string>& states, size_t index) {
  return {"custom.states[" + std::to_string(index) + "]", states[index]};
}

// Of an entry's value; what comes after it is not told.
constexpr uint64_t kMaxValueBytes = 4096;

ho::Result<std::vector<std::string>> all_gather_text(ho_comm* comm,
                                                     const std::string& text,
                                                     uint64_t timeout_ms) {
  const uint64_t bytes = std::min<uint64_t>(text.size(), kMaxValueBytes);
  HORING_ASSIGN(const auto counts, all_gather_values(comm, {&bytes, 1}, timeout_ms));
  const uint64_t most = *std::max_element(counts.begin(), counts.end());
  if (most > kMaxValueBytes) {
    return ho::Status(ho::StatusCode::kProtocol,
                      "a rank's setting of " + std::to_string(most) + " bytes");
  }
  std::vector<uint64_t> words(most / sizeof(uint64_t) + 1);
  std::memcpy(words.data(), text.data(), bytes);
  HORING_ASSIGN(const auto all, all_gather_values(comm, words, timeout_ms));
  std::vector<std::string> texts;
  texts.reserve(counts.size());
  for (const uint64_t count : counts) {
    texts.emplace_back(reinterpret_cast<const char*>(&all[texts.size() * words.size()]), count);
  }
  return texts;
}

// Not in the middle of a character.
size_t character_at(const std::string& text, size_t at) {
  const auto continues = [&](size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
  };
  while (at > 0 && continues(at)) {
    --at;
  }
  return std::min(at, text.size());
}

// Of a long text the beginning, and what is around `at`.
std::string shortened(const std::string& text, size_t at) {
  constexpr size_t kHead = 96;
  constexpr size_t kBefore = 24;
  constexpr size_t kAfter = 48;
  const size_t head = character_at(text, kHead);
  const size_t begin = std::max(head, character_at(text, at - std::min(at, kBefore)));
  const size_t end = character_at(text, std::max(begin, at) + kAfter);
  return text.substr(0, head) + (begin > head ? "..." : "") + text.substr(begin, end - begin) +
         (end < text.size() ? "..." : "");
}

std::string both(const std::string& first, const std::string& second) {
  const auto [in_first, in_second] =
      std::mismatch(first.begin(), first.end(), second.begin(), second.end());
  const auto at = static_cast<size_t>(in_first - first.begin());
  const bool beyond = in_first == first.end() && in_second == second.end();
  return shortened(first, at) + " and " + shortened(second, at) +
         (beyond ? " (which differ beyond byte " + std::to_string(kMaxValueBytes) + ")" : "");
}

// `entry` makes the one of an index below `count`, which is the same on all ranks: a list may be
// long.
template <typename EntryAt>
ho::Status agree_on(ho_comm* comm, size_t count, const EntryAt& entry, uint64_t timeout_ms) {
  std::vector<uint64_t> hashes;
  hashes.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    hashes.push_back(ho::Hash().add(entry(i).value).value());
  }
  HORING_ASSIGN(const auto different, first_difference(comm, hashes, timeout_ms));
  if (!different) {
    return {};
  }
  const Entry& mine = entry(different->index);  // a temporary lives as long
  HORING_ASSIGN(const auto texts, all_gather_text(comm, mine.value, timeout_ms));
  return {ho::StatusCode::kMismatch,
          "ranks 0 and " + std::to_string(different->rank) + " differ in: " + mine.name + ": " +
              both(texts[0], texts[different->rank]) + "; set it the same on every rank"};
}

}  // namespace

ho::Status agree_on_config(ho_comm* comm,
                           const RunnerConfig& config,
                           const ho::GroupMap& groups,
                           uint64_t timeout_ms) {
  const std::vector<Entry> settings = settings_of(config);
  const auto setting = [&](size_t index) -> const Entry& { return settings[index]; };
  HORING_TRY(agree_on(comm, settings.size(), setting, timeout_ms));
  const std::array<size_t, 4> counts{groups.world_size(),
                                     config.units.size(),
                                     config.groups.size(),
                                     config.optimizer ? config.optimizer_states.size() : 0};
  const auto entry = [&](size_t index) {  // of all lists, one after the other
    size_t list = 0;
    for (; index >= counts.at(list); ++list) {
      index -= counts.at(list);
    }
    switch (list) {
      case 0:
        return entry_of(groups, index);
      case 1:
        return entry_of(config.units, index);
      case 2:
        return entry_of(config.groups, index);
      default:
        return entry_of(config.optimizer_states, index);
    }
  };
  return agree_on(
      comm, std::accumulate(counts.begin(), counts.end(), size_t{0}), entry, timeout_ms);
}

}  // namespace paro
