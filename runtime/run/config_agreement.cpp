// What ranks must be set up alike in: first the settings, which are numbers, as many on all ranks;
// then, since they are as long now, the lists.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include "base/hash.hpp"
#include "run/agreement.hpp"
#include "run/step_runner.hpp"

namespace paro {
namespace {

using Show = std::string (*)(uint64_t value);

std::string shown_count(uint64_t value) {
  return std::to_string(value);
}

// A setting by its name in paro.h, and how its value is written there.
struct Setting {
  std::string name;
  uint64_t value = 0;
  Show show = shown_count;
};

std::string shown_number(uint64_t value) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), std::bit_cast<double>(value));
  return {text.data(), end.ptr};
}

std::string shown_strategy(uint64_t value) {
  const auto scope = [](uint64_t digit) { return static_cast<Scope>(digit % 3); };
  return letters({scope(value / 9), scope(value / 3), scope(value)});
}

std::string shown_scope(uint64_t value) {
  return std::string(1, letter(static_cast<Scope>(value % 3)));
}

std::string shown_type(uint64_t value) {
  return std::string(ho::to_string(static_cast<ho::DType>(value % ho::kDTypeCount)));
}

std::string shown_optimizer(uint64_t value) {
  constexpr std::array kNames{"AdamW", "SGD", "a custom one"};
  return kNames.at(value % kNames.size());
}

std::string shown_scaling(uint64_t value) {
  constexpr std::array kNames{"PARO_SCALING_NONE", "PARO_SCALING_STATIC", "PARO_SCALING_DYNAMIC"};
  return kNames.at(value % kNames.size());
}

std::string shown_algorithm(uint64_t value) {
  constexpr std::array kNames{"HO_ALGORITHM_RING",
                              "HO_ALGORITHM_MULTI_RING",
                              "HO_ALGORITHM_HIERARCHICAL",
                              "HO_ALGORITHM_HO_RING",
                              "HO_ALGORITHM_DIRECT"};
  return value < kNames.size() ? kNames.at(value) : "HO_ALGORITHM_AUTO";
}

Setting number(std::string name, double value) {
  return {std::move(name), std::bit_cast<uint64_t>(value), shown_number};
}

// As many, and by the same names, for one kind of optimizer.
void add_optimizer(const RunnerConfig& config, std::vector<Setting>& settings) {
  const uint64_t kind = config.optimizer ? 2 : config.rule.index();
  settings.push_back({"optimizer", kind, shown_optimizer});
  const auto* const adamw = std::get_if<AdamW>(&config.rule);
  const auto* const sgd = std::get_if<Sgd>(&config.rule);
  if (config.optimizer) {
    settings.push_back({"custom.state_count", config.optimizer_states.size()});
  } else if (adamw != nullptr) {
    settings.push_back(number("adamw.learning_rate", adamw->learning_rate));
    settings.push_back(number("adamw.beta1", adamw->beta1));
    settings.push_back(number("adamw.beta2", adamw->beta2));
    settings.push_back(number("adamw.epsilon", adamw->epsilon));
    settings.push_back(number("adamw.weight_decay", adamw->weight_decay));
  } else if (sgd != nullptr) {
    settings.push_back(number("sgd.learning_rate", sgd->learning_rate));
    settings.push_back(number("sgd.momentum", sgd->momentum));
    settings.push_back(number("sgd.weight_decay", sgd->weight_decay));
  }
}

void add_loss_scale(const LossScaleSettings& scale, std::vector<Setting>& settings) {
  settings.push_back({"loss_scale.scaling", static_cast<uint64_t>(scale.scaling), shown_scaling});
  settings.push_back(number("loss_scale.initial", scale.initial));
  settings.push_back(number("loss_scale.growth", scale.growth));
  settings.push_back(number("loss_scale.backoff", scale.backoff));
  settings.push_back({"loss_scale.growth_interval", scale.growth_interval});
  settings.push_back(number("loss_scale.least", scale.least));
  settings.push_back(number("loss_scale.most", scale.most));
}

// The longest list of any optimizer: all ranks compare as many.
constexpr size_t kOptimizerSettings = 6;

std::vector<Setting> settings_of(const RunnerConfig& config) {
  const auto digit = [](auto value) { return static_cast<uint64_t>(value); };
  const Strategy& strategy = config.strategy;
  std::vector<Setting> settings{
      {"strategy",
       digit(strategy.parameters) * 9 + digit(strategy.gradients) * 3 + digit(strategy.optimizer),
       shown_strategy},
      {"frozen", digit(config.frozen), shown_scope},
      {"the number of units", config.units.size()},
      {"micro_batches", config.micro_batches},
      {"prefetch", config.prefetch},
      {"bucket_bytes", config.bucket_bytes},
      {"alignment", config.alignment},
      {"parameter_dtype", digit(config.parameter_dtype), shown_type},
      {"gradient_dtype", digit(config.gradient_dtype), shown_type},
      {"narrow_sums", config.narrow_sums ? uint64_t{1} : 0},
      {"unchecked_loads", config.unchecked_loads ? uint64_t{1} : 0},
      number("max_norm", config.max_norm),
      {"algorithm", digit(config.algorithm), shown_algorithm},
      {"parameter_group_count", config.groups.size()},
      {"drift_interval", config.drift_interval}};
  const size_t before = settings.size();
  add_optimizer(config, settings);
  settings.resize(before + kOptimizerSettings);
  add_loss_scale(config.loss_scale, settings);
  return settings;
}

// One of a list. Its value is a line of any length, what matters most first.
struct Entry {
  std::string name;
  std::string value;
};

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
              ", learning_rate_factor " + shown_number(std::bit_cast<uint64_t>(group.rate_factor)) +
              ", weight_decay " + shown_number(std::bit_cast<uint64_t>(group.weight_decay))};
}

Entry entry_of(const std::vector<std::string>& states, size_t index) {
  return {"custom.states[" + std::to_string(index) + "]", states[index]};
}

// All lists, one after the other.
class Entries {
 public:
  Entries(const RunnerConfig& config, const ho::GroupMap& groups)
      : config_(config), groups_(groups) {}

  [[nodiscard]] size_t count() const {
    return groups_.world_size() + config_.units.size() + config_.groups.size() + states_count();
  }

  [[nodiscard]] Entry operator[](size_t index) const {
    if (index < groups_.world_size()) {
      return entry_of(groups_, index);
    }
    index -= groups_.world_size();
    if (index < config_.units.size()) {
      return entry_of(config_.units, index);
    }
    index -= config_.units.size();
    return index < config_.groups.size()
               ? entry_of(config_.groups, index)
               : entry_of(config_.optimizer_states, index - config_.groups.size());
  }

 private:
  [[nodiscard]] size_t states_count() const {
    return config_.optimizer ? config_.optimizer_states.size() : 0;
  }

  const RunnerConfig& config_;
  const ho::GroupMap& groups_;
};

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

ho::Status differ(size_t rank, const std::string& what) {
  return {ho::StatusCode::kMismatch,
          "ranks 0 and " + std::to_string(rank) + " differ in: " + what +
              "; every rank must be set up alike"};
}

ho::Status agree_on_entries(ho_comm* comm, const Entries& entries, uint64_t timeout_ms) {
  std::vector<uint64_t> hashes;
  hashes.reserve(entries.count());
  for (size_t i = 0; i < entries.count(); ++i) {
    hashes.push_back(ho::Hash().add(entries[i].value).value());
  }
  HORING_ASSIGN(const auto different, first_difference(comm, hashes, timeout_ms));
  if (!different) {
    return {};
  }
  const Entry mine = entries[different->index];
  HORING_ASSIGN(const auto texts, all_gather_text(comm, mine.value, timeout_ms));
  return differ(different->rank, mine.name + ": " + both(texts[0], texts[different->rank]));
}

}  // namespace

ho::Status agree_on_config(ho_comm* comm,
                           const RunnerConfig& config,
                           const ho::GroupMap& groups,
                           uint64_t timeout_ms) {
  const std::vector<Setting> settings = settings_of(config);
  std::vector<uint64_t> mine;
  mine.reserve(settings.size());
  for (const Setting& setting : settings) {
    mine.push_back(setting.value);
  }
  HORING_ASSIGN(const auto all, all_gather_values(comm, mine, timeout_ms));
  for (size_t i = 0; i < settings.size(); ++i) {
    for (size_t rank = 1; rank * mine.size() < all.size(); ++rank) {
      if (all[rank * mine.size() + i] != all[i]) {
        const Setting& setting = settings[i];
        return differ(rank,
                      setting.name + ": " + setting.show(all[i]) + " and " +
                          setting.show(all[rank * mine.size() + i]));
      }
    }
  }
  return agree_on_entries(comm, Entries(config, groups), timeout_ms);
}

}  // namespace paro
