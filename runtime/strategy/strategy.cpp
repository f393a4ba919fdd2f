#include "strategy/strategy.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "base/names.hpp"

namespace paro {
namespace {

using enum Scope;

struct KnownName {
  std::string_view key;     // lower case, letters and digits only
  std::string_view listed;  // "" for a second spelling
  Strategy strategy;
};

constexpr std::array kKnown{
    KnownName{"ddp", "DDP", {kReplicated, kReplicated, kReplicated}},
    KnownName{"zero1", "ZeRO-1", {kReplicated, kReplicated, kWorld}},
    KnownName{"zero2", "ZeRO-2", {kReplicated, kWorld, kWorld}},
    KnownName{"zero3", "ZeRO-3", {kWorld, kWorld, kWorld}},
    KnownName{"fsdp", "FSDP", {kWorld, kWorld, kWorld}},
    KnownName{"fullshard", "", {kWorld, kWorld, kWorld}},
    KnownName{"mics", "MiCS", {kGroup, kGroup, kGroup}},
    KnownName{"hsdp", "HSDP", {kGroup, kGroup, kGroup}},
    KnownName{"hybridshard", "", {kGroup, kGroup, kGroup}},
    KnownName{"hsdpzero2", "HSDP zero2", {kReplicated, kGroup, kGroup}},
    KnownName{"hybridshardzero2", "", {kReplicated, kGroup, kGroup}},
    KnownName{"zero++", "ZeRO++ (hpZ), nearly", {kGroup, kWorld, kWorld}},
    KnownName{"hpz", "", {kGroup, kWorld, kWorld}},
};

std::string simplified(std::string_view text) {
  std::string key;
  for (const char c : text) {
    if (c != '-' && c != '_' && c != ' ') {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return key;
}

std::optional<Scope> scope_of(char lower) {
  switch (lower) {
    case 'n':
      return kReplicated;
    case 'i':
      return kGroup;
    case 'g':
      return kWorld;
    default:
      return std::nullopt;
  }
}

std::optional<Strategy> by_letters(std::string_view key) {
  if (key.size() != 3) {
    return std::nullopt;
  }
  const auto parameters = scope_of(key[0]);
  const auto gradients = scope_of(key[1]);
  const auto optimizer = scope_of(key[2]);
  if (!parameters || !gradients || !optimizer) {
    return std::nullopt;
  }
  return Strategy{*parameters, *gradients, *optimizer};
}

ho::Status too_wide(const Strategy& strategy, std::string_view state, Scope scope) {
  const std::string triple = letters(strategy);
  return ho::invalid(
      "strategy " + triple + ": the optimizer state is held by " +
      (strategy.optimizer == kReplicated ? "every rank" : "a group") + " (" +
      letter(strategy.optimizer) + ") but the " + std::string(state) + " are " +
      std::string(to_string(scope)) + " (" + letter(scope) +
      "); the optimizer state must be split at least as finely as the parameters and as the "
      "gradients");
}

ho::Status unknown(std::string_view text) {
  constexpr size_t kMaxText = 32;  // of what may be a whole file
  std::string known;
  for (const Strategy& strategy : all_strategies()) {
    known += (known.empty() ? "" : " ") + letters(strategy);
  }
  std::string names;
  for (const KnownName& name : kKnown) {
    names += (names.empty() ? "" : " ") + std::string(name.key);
  }
  return ho::invalid("unknown strategy '" + std::string(text.substr(0, kMaxText)) +
                     (text.size() > kMaxText ? "...'" : "'") +
                     ": takes three letters for parameters, "
                     "gradients and optimizer state (" +
                     known + "), or a name (" + names + ")");
}

}  // namespace

char letter(Scope scope) {
  constexpr std::string_view kLetters = "NIG";
  return kLetters.at(static_cast<size_t>(scope));
}

std::string_view to_string(Scope scope) {
  constexpr ho::Names<3> kTexts{"on every rank", "split inside the group", "split over all ranks"};
  return ho::name_in(kTexts, scope);
}

std::string letters(const Strategy& strategy) {
  return {letter(strategy.parameters), letter(strategy.gradients), letter(strategy.optimizer)};
}

ho::Status check(const Strategy& strategy) {
  if (strategy.parameters > strategy.optimizer) {
    return too_wide(strategy, "parameters", strategy.parameters);
  }
  if (strategy.gradients > strategy.optimizer) {
    return too_wide(strategy, "gradients", strategy.gradients);
  }
  return {};
}

ho::Result<Strategy> parse_strategy(std::string_view text) {
  const std::string key = simplified(text);
  if (const auto strategy = by_letters(key)) {
    HORING_TRY(check(*strategy));
    return *strategy;
  }
  const auto* const found = std::find_if(
      kKnown.begin(), kKnown.end(), [&](const KnownName& name) { return name.key == key; });
  if (found == kKnown.end()) {
    return unknown(text);
  }
  return found->strategy;
}

const std::array<Strategy, kStrategyCount>& all_strategies() {
  static constexpr std::array<Strategy, kStrategyCount> kAll{{
      {kReplicated, kReplicated, kReplicated},
      {kReplicated, kReplicated, kGroup},
      {kReplicated, kReplicated, kWorld},
      {kReplicated, kGroup, kGroup},
      {kReplicated, kGroup, kWorld},
      {kReplicated, kWorld, kWorld},
      {kGroup, kReplicated, kGroup},
      {kGroup, kReplicated, kWorld},
      {kGroup, kGroup, kGroup},
      {kGroup, kGroup, kWorld},
      {kGroup, kWorld, kWorld},
      {kWorld, kReplicated, kWorld},
      {kWorld, kGroup, kWorld},
      {kWorld, kWorld, kWorld},
  }};
  return kAll;
}

std::vector<std::string_view> known_as(const Strategy& strategy) {
  std::vector<std::string_view> names;
  for (const KnownName& name : kKnown) {
    if (name.strategy == strategy && !name.listed.empty()) {
      names.push_back(name.listed);
    }
  }
  return names;
}

}  // namespace paro
