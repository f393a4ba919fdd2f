#include "run/agreement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "run/step_runner.hpp"

namespace paro {
namespace {

uint64_t hash_of(const std::vector<UnitShape>& units) {
  uint64_t hash = kHashStart;
  for (const UnitShape& unit : units) {
    const std::array<uint64_t, 2> counts{unit.trained, unit.frozen};
    hash = hash_bytes(hash, counts.data(), sizeof counts);
    hash = hash_bytes(hash, unit.name.data(), unit.name.size());
  }
  return hash;
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

std::vector<double> numbers(const AdamW& rule) {
  return {rule.learning_rate, rule.beta1, rule.beta2, rule.epsilon, rule.weight_decay};
}

std::vector<double> numbers(const Sgd& rule) {
  return {rule.learning_rate, rule.momentum, rule.weight_decay};
}

uint64_t hash_of(const std::vector<double>& values) {
  return hash_bytes(kHashStart, values.data(), values.size() * sizeof(double));
}

uint64_t hash_of(const Rule& rule) {
  return rule.index() + std::visit([](const auto& one) { return hash_of(numbers(one)); }, rule);
}

uint64_t hash_of(const LossScaleSettings& settings) {
  return hash_of({static_cast<double>(settings.scaling),
                  settings.initial,
                  settings.growth,
                  settings.backoff,
                  static_cast<double>(settings.growth_interval),
                  settings.least,
                  settings.most});
}

struct Setting {
  const char* name;
  uint64_t value;
};

std::vector<Setting> settings_of(const RunnerConfig& config, const ho::GroupMap& groups) {
  const auto number = [](auto value) { return static_cast<uint64_t>(value); };
  const Strategy& strategy = config.strategy;
  return {{"strategy",
           number(strategy.parameters) * 9 + number(strategy.gradients) * 3 +
               number(strategy.optimizer)},
          {"scope of frozen parameters", number(config.frozen)},
          {"units (names and sizes)", hash_of(config.units)},
          {"groups", hash_of(groups)},
          {"micro-batches", config.micro_batches},
          {"prefetch", config.prefetch},
          {"bucket_bytes", config.bucket_bytes},
          {"alignment", config.alignment},
          {"parameter type", number(config.parameter_dtype)},
          {"gradient type", number(config.gradient_dtype)},
          {"narrow_sums", config.narrow_sums ? uint64_t{1} : 0},
          {"optimizer", config.optimizer ? 0 : hash_of(config.rule)},
          {"loss scale", hash_of(config.loss_scale)},
          {"max_norm", std::bit_cast<uint64_t>(config.max_norm)},
          {"algorithm", number(config.algorithm)},
          {"drift check interval", config.drift_interval}};
}

}  // namespace

uint64_t hash_bytes(uint64_t hash, const void* data, size_t bytes) {
  const auto* next = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ next[i]) * 1099511628211U;
  }
  return hash;
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
        return {ho::StatusCode::kMismatch,
                "ranks 0 and " + std::to_string(rank) + " differ in: " + settings[i].name +
                    "; every rank must be set up alike"};
      }
    }
  }
  return {};
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
