#include "run/agreement.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>

#include "run/step_runner.hpp"

namespace paro {
namespace {

uint64_t hash_of(const UnitShape& unit) {
  const uint64_t shares = unit.shares ? *unit.shares + uint64_t{1} : 0;
  const std::array<uint64_t, 3> counts{unit.trained, unit.frozen, shares};
  const uint64_t hash = hash_bytes(kHashStart, counts.data(), sizeof counts);
  return hash_bytes(hash, unit.name.data(), unit.name.size());
}

uint64_t hash_of(const ho::GroupMap& groups) {
  uint64_t hash = kHashStart;
  for (uint32_t r = 0; r < groups.world_size(); ++r) {
    const std::array<uint32_t, 2> place{groups.group_of(ho::GlobalRank(r)).value(),
                                        groups.group_rank_of(ho::GlobalRank(r)).value()};
    hash = hash_bytes(hash, place.data(), sizeof place);
  }
  return hash;
}

using Show = std::string (*)(uint64_t value);

// A setting by its name in paro.h.
struct Setting {
  std::string name;
  uint64_t value = 0;
  Show show = nullptr;  // null: the value says nothing
};

std::string shown_count(uint64_t value) {
  return std::to_string(value);
}

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
    uint64_t names = kHashStart;
    for (const std::string& name : config.optimizer_states) {
      names = hash_bytes(names, name.c_str(), name.size() + 1);
    }
    settings.push_back({"custom.state_count", config.optimizer_states.size(), shown_count});
    settings.push_back({"custom.states", names, nullptr});
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
  settings.push_back({"loss_scale.scaling", static_cast<uint64_t>(scale.scaling), shown_count});
  settings.push_back(number("loss_scale.initial", scale.initial));
  settings.push_back(number("loss_scale.growth", scale.growth));
  settings.push_back(number("loss_scale.backoff", scale.backoff));
  settings.push_back({"loss_scale.growth_interval", scale.growth_interval, shown_count});
  settings.push_back(number("loss_scale.least", scale.least));
  settings.push_back(number("loss_scale.most", scale.most));
}

// The longest list of any optimizer: all ranks compare as many.
constexpr size_t kOptimizerSettings = 6;

uint64_t hash_of(const std::vector<ParameterGroup>& groups) {
  uint64_t hash = kHashStart;
  for (const ParameterGroup& group : groups) {
    const std::array<uint64_t, 5> numbers{group.unit,
                                          group.range.begin,
                                          group.range.end,
                                          std::bit_cast<uint64_t>(group.rate_factor),
                                          std::bit_cast<uint64_t>(group.weight_decay)};
    hash = hash_bytes(hash, numbers.data(), sizeof numbers);
  }
  return hash;
}

std::vector<Setting> settings_of(const RunnerConfig& config, const ho::GroupMap& groups) {
  const auto digit = [](auto value) { return static_cast<uint64_t>(value); };
  const Strategy& strategy = config.strategy;
  std::vector<Setting> settings{
      {"strategy",
       digit(strategy.parameters) * 9 + digit(strategy.gradients) * 3 + digit(strategy.optimizer),
       shown_strategy},
      {"frozen", digit(config.frozen), shown_scope},
      {"the number of units", config.units.size(), shown_count},
      {"groups (group_size, group_file)", hash_of(groups), nullptr},
      {"micro_batches", config.micro_batches, shown_count},
      {"prefetch", config.prefetch, shown_count},
      {"bucket_bytes", config.bucket_bytes, shown_count},
      {"alignment", config.alignment, shown_count},
      {"parameter_dtype", digit(config.parameter_dtype), shown_type},
      {"gradient_dtype", digit(config.gradient_dtype), shown_type},
      {"narrow_sums", config.narrow_sums ? uint64_t{1} : 0, shown_count},
      {"unchecked_loads", config.unchecked_loads ? uint64_t{1} : 0, shown_count},
      number("max_norm", config.max_norm),
      {"algorithm", digit(config.algorithm), shown_count},
      {"parameter_groups", hash_of(config.groups), nullptr},
      {"drift_interval", config.drift_interval, shown_count}};
  const size_t before = settings.size();
  add_optimizer(config, settings);
  settings.resize(before + kOptimizerSettings);
  add_loss_scale(config.loss_scale, settings);
  return settings;
}

std::string text_of(const UnitShape& unit) {
  return "\"" + unit.name + "\" with " + std::to_string(unit.trained) + " trained and " +
         std::to_string(unit.frozen) + " frozen elements" +
         (unit.shares ? ", sharing those of unit " + std::to_string(*unit.shares) : "");
}

// Every rank's text, cut to what a line needs.
ho::Result<std::vector<std::string>> everybodys_text(ho_comm* comm,
                                                     const std::string& text,
                                                     uint64_t timeout_ms) {
  std::array<uint64_t, 32> words{};
  std::memcpy(words.data(), text.data(), std::min(text.size(), sizeof words));
  HORING_ASSIGN(const auto all, everybodys(comm, words, timeout_ms));
  std::vector<std::string> texts;
  for (size_t at = 0; at < all.size(); at += words.size()) {
    const auto* const from = reinterpret_cast<const char*>(&all[at]);
    texts.emplace_back(from, ::strnlen(from, sizeof words));
  }
  return texts;
}

ho::Status differ(size_t rank, const std::string& what) {
  return {ho::StatusCode::kMismatch,
          "ranks 0 and " + std::to_string(rank) + " differ in: " + what +
              "; every rank must be set up alike"};
}

// All ranks have as many units.
ho::Status agree_on_units(ho_comm* comm, const std::vector<UnitShape>& units, uint64_t timeout_ms) {
  std::vector<uint64_t> hashes;
  hashes.reserve(units.size());
  for (const UnitShape& unit : units) {
    hashes.push_back(hash_of(unit));
  }
  HORING_ASSIGN(const auto different, first_difference(comm, hashes, timeout_ms));
  if (!different) {
    return {};
  }
  const size_t index = different->index;
  HORING_ASSIGN(const auto texts, everybodys_text(comm, text_of(units[index]), timeout_ms));
  return differ(
      different->rank,
      "unit " + std::to_string(index) + ": " + texts[0] + " and " + texts[different->rank]);
}

}  // namespace

uint64_t hash_bytes(uint64_t hash, const void* data, size_t bytes) {
  return XXH3_64bits_withSeed(data, bytes, hash);
}

ho::Result<std::vector<uint64_t>> everybodys(ho_comm* comm,
                                             std::span<const uint64_t> values,
                                             uint64_t timeout_ms) {
  ho_call_options options = HO_CALL_OPTIONS_INIT;
  options.timeout_ms = timeout_ms;
  std::vector<uint64_t> all(values.size() * static_cast<size_t>(ho_comm_world_size(comm)));
  HORING_TRY(checked(ho_all_gather(
      comm, values.data(), all.data(), values.size(), HO_UINT64, &options, nullptr, nullptr)));
  return all;
}

ho::Status everybody_ok(ho_comm* comm,
                        const ho::Status& mine,
                        uint64_t timeout_ms,
                        std::span<const ho::GlobalRank> ranks) {
  // The code, and as much of the message as makes a sentence.
  std::array<uint64_t, 64> word{static_cast<uint64_t>(mine.code())};
  constexpr size_t kTextBytes = sizeof word - sizeof word[0] - 1;
  std::memcpy(&word[1], mine.message().data(), std::min<size_t>(mine.message().size(), kTextBytes));
  const auto all = everybodys(comm, word, timeout_ms);
  HORING_TRY(mine);
  HORING_TRY(all.status());
  for (size_t rank = 0; rank * word.size() < all.value().size(); ++rank) {
    const uint64_t* const theirs = &all.value()[rank * word.size()];
    if (theirs[0] != 0) {
      const auto* const text = reinterpret_cast<const char*>(theirs + 1);
      const bool known = theirs[0] <= static_cast<uint64_t>(ho::StatusCode::kInternal);
      return {known ? static_cast<ho::StatusCode>(theirs[0]) : ho::StatusCode::kProtocol,
              "rank " + std::to_string(ranks.empty() ? rank : ranks[rank].value()) +
                  " cannot take part: " + std::string(text, ::strnlen(text, kTextBytes))};
    }
  }
  return {};
}

ho::Status agree_on_config(ho_comm* comm,
                           const RunnerConfig& config,
                           const ho::GroupMap& groups,
                           uint64_t timeout_ms) {
  const std::vector<Setting> settings = settings_of(config, groups);
  std::vector<uint64_t> mine;
  mine.reserve(settings.size());
  for (const Setting& setting : settings) {
    mine.push_back(setting.value);
  }
  HORING_ASSIGN(const auto all, everybodys(comm, mine, timeout_ms));
  for (size_t i = 0; i < settings.size(); ++i) {
    for (size_t rank = 1; rank * mine.size() < all.size(); ++rank) {
      if (all[rank * mine.size() + i] != all[i]) {
        const Show show = settings[i].show;
        const uint64_t other = all[rank * mine.size() + i];
        return differ(rank,
                      settings[i].name +
                          (show == nullptr ? "" : ": " + show(all[i]) + " and " + show(other)));
      }
    }
  }
  return agree_on_units(comm, config.units, timeout_ms);
}

// Looks for the place by hashes of all that lie before it: few numbers travel, however many there
// are.
ho::Result<std::optional<Difference>> first_difference(ho_comm* comm,
                                                       std::span<const uint64_t> values,
                                                       uint64_t timeout_ms) {
  const auto before = [&](size_t count) {
    const uint64_t hash = hash_bytes(kHashStart, values.data(), count * sizeof(uint64_t));
    return everybodys(comm, {&hash, 1}, timeout_ms);
  };
  HORING_ASSIGN(const auto whole, before(values.size()));
  const auto other =
      std::find_if(whole.begin(), whole.end(), [&](uint64_t hash) { return hash != whole[0]; });
  if (other == whole.end()) {
    return std::optional<Difference>();
  }
  const auto rank = static_cast<size_t>(other - whole.begin());
  size_t same = 0;
  size_t different = values.size();
  while (different - same > 1) {
    const size_t middle = same + (different - same) / 2;
    HORING_ASSIGN(const auto half, before(middle));
    (half[rank] == half[0] ? same : different) = middle;
  }
  return std::optional<Difference>(Difference{same, rank});
}

ho::Result<uint64_t> smallest_budget(ho_comm* comm, uint64_t budget, uint64_t timeout_ms) {
  HORING_ASSIGN(const auto all, everybodys(comm, {&budget, 1}, timeout_ms));
  uint64_t smallest = 0;
  for (const uint64_t one : all) {
    smallest = smallest == 0 || (one > 0 && one < smallest) ? one : smallest;
  }
  return smallest;
}

}  // namespace paro
