#include "base/env.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/escaped.hpp"
#include "base/log.hpp"
#include "base/near_names.hpp"
#include "base/quantity.hpp"

namespace ho::env {
namespace {

#define HORING_NAME(name, ...) name,
constexpr std::array kAll{HORING_VARIABLES(HORING_NAME)};
#undef HORING_NAME

Status bad_value(const Variable& variable, std::string_view value, std::string_view takes) {
  return invalid(std::string(variable.name) + "=" + std::string(value) + ": takes " +
                 std::string(takes) + "; change or unset the variable");
}

bool allows(const Range& range, uint64_t value) {
  if (range.or_zero && value == 0) {
    return true;
  }
  return value >= range.least && value <= range.most && value % range.multiple_of == 0 &&
         (!range.power_of_two || std::has_single_bit(value));
}

// Variables that hold one of some words; the code that reads one has the parser.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kWords{{
    {kLogLevel.name, "trace, debug, info, warn, error, off"},
    {kAlgorithm.name, "auto, ring, multi_ring, hierarchical, ho_ring, direct"},
    {kTransport.name, "tcp, ucx"},
    {kDeviceSums.name, "auto, host, device"},
}};

bool is_switch(const Variable& variable) {
  constexpr std::array kSwitches{
      kAllowUnauthenticated.name, kCollNetHost.name, kDeviceSharing.name, kFailover.name};
  return std::ranges::find(kSwitches, variable.name) != kSwitches.end();
}

// OK for a variable that holds no number.
Status check_number(const Variable& variable) {
  if (!variable.range) {
    return {};
  }
  const std::string value = text(variable);
  return value.empty() || value == variable.range->or_word ? Status() : number(variable).status();
}

}  // namespace

std::span<const Variable> all() {
  return kAll;
}

std::optional<std::string> text_if_set(const Variable& variable) {
  const char* value = std::getenv(std::string(variable.name).c_str());
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return std::string(value);
}

bool is_set_to_nothing(const Variable& variable) {
  const char* value = std::getenv(std::string(variable.name).c_str());
  return value != nullptr && *value == '\0';
}

std::string text(const Variable& variable) {
  return text_if_set(variable).value_or(std::string(variable.default_value));
}

std::string takes(const Variable& variable) {
  if (!variable.range) {
    return {};
  }
  const Range& range = *variable.range;
  std::string text = range.or_zero ? "0, or " : "";
  if (!range.or_word.empty()) {
    text += std::string(range.or_word) + ", or ";
  }
  text += std::to_string(range.least) + " to " + std::to_string(range.most);
  if (range.power_of_two) {
    text += ", a power of two";
  }
  if (range.multiple_of > 1) {
    text += ", a multiple of " + std::to_string(range.multiple_of);
  }
  return text;
}

Result<uint64_t> number(const Variable& variable) {
  const std::string value = text(variable);
  const auto parsed = whole_number<uint64_t>(value);
  if (!parsed || (variable.range && !allows(*variable.range, *parsed))) {
    return bad_value(variable, value, variable.range ? takes(variable) : "a whole number");
  }
  return *parsed;
}

Status check_numbers() {
  for (const Variable& variable : kAll) {
    HORING_TRY(check_number(variable));
  }
  HORING_TRY(record_signal().status());
  return port_range().status();
}

Status check_value(const Variable& variable) {
  const std::string value = text(variable);
  if (is_switch(variable) ||
      (variable.name == kShmSingleCopy.name && value != kShmSingleCopy.default_value)) {
    return flag(variable).status();
  }
  for (const auto& [name, words] : kWords) {
    if (name == variable.name &&
        (", " + std::string(words) + ",").find(", " + value + ",") == std::string::npos) {
      return bad_value(variable, value, "one of " + std::string(words));
    }
  }
  if (variable.name == kRecordSignal.name) {
    return record_signal().status();
  }
  return variable.name == kPortRange.name ? port_range().status() : check_number(variable);
}

std::string compared_text(const Variable& variable) {
  const std::string value = text(variable);
  if (is_switch(variable)) {
    const Result<bool> on = flag(variable);
    return on.ok() ? *on ? "1" : "0" : value;
  }
  const auto number = variable.range ? whole_number<uint64_t>(value) : std::nullopt;
  return number ? std::to_string(*number) : value;
}

std::vector<std::string> unknown_names(std::string_view prefix) {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view name =
        std::string_view(*entry).substr(0, std::string_view(*entry).find('='));
    const bool known =
        std::ranges::any_of(kAll, [&](const Variable& variable) { return variable.name == name; });
    if (name.starts_with(prefix) && !known) {
      names.emplace_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<Misspelt> misspelt_names() {
  constexpr std::string_view kPrefix = "HORING_";
  constexpr size_t kMaxEdits = 2;  // or, of a long one, a quarter
  std::vector<Misspelt> found;
  for (const std::string& name : unknown_names(kPrefix)) {
    const auto edits = [&](const Variable& variable) { return edit_distance(name, variable.name); };
    const Variable& nearest = *std::ranges::min_element(kAll, {}, edits);
    if (edits(nearest) <= std::max(kMaxEdits, (name.size() - kPrefix.size()) / 4)) {
      found.push_back({name, nearest.name});
    }
  }
  return found;
}

void warn_of_misspelt_names() {
  static std::atomic<bool> warned = false;
  if (warned.exchange(true)) {
    return;
  }
  for (const Misspelt& each : misspelt_names()) {
    log_warn("{} is set, and no variable has that name: is {} meant? (`horing env` lists all)",
             escaped(each.name),
             each.near);
  }
}

Result<std::optional<PortRange>> port_range() {
  const std::string value = text(kPortRange);
  if (value.empty()) {
    return std::optional<PortRange>();
  }
  const size_t dash = value.find('-');
  const auto first = whole_number<uint16_t>(std::string_view(value).substr(0, dash));
  const auto last = dash == std::string::npos
                        ? std::nullopt
                        : whole_number<uint16_t>(std::string_view(value).substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first) {
    return bad_value(kPortRange, value, "FIRST-LAST, ports from 1 to 65535 such as 30000-30999");
  }
  return std::optional(PortRange{*first, *last});
}

Result<std::optional<int>> record_signal() {
  const std::string value = text(kRecordSignal);
  if (value.empty()) {
    return std::optional<int>();
  }
  const auto number = whole_number<int>(value);
  const bool good = number && (*number == SIGUSR1 || *number == SIGUSR2 ||
                               (*number >= SIGRTMIN && *number <= SIGRTMAX));
  if (!good) {
    return bad_value(kRecordSignal,
                     value,
                     std::to_string(SIGUSR1) + " (SIGUSR1), " + std::to_string(SIGUSR2) +
                         " (SIGUSR2), or " + std::to_string(SIGRTMIN) + " to " +
                         std::to_string(SIGRTMAX) +
                         "; others report faults, end or stop the program, or come without being "
                         "asked for");
  }
  return std::optional(*number);
}

Result<bool> flag(const Variable& variable) {
  const std::string input = text(variable);
  std::string value = input;
  std::ranges::transform(
      value, value.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (value == "1" || value == "true" || value == "yes" || value == "on") {
    return true;
  }
  if (value == "0" || value == "false" || value == "no" || value == "off" || value.empty()) {
    return false;
  }
  return bad_value(variable, input, variable.default_value == "auto" ? "0, 1 or auto" : "0 or 1");
}

}  // namespace ho::env
