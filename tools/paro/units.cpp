#include "paro/units.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace paro::tool {
namespace {

ho::Status refused(std::string_view what, std::string_view text, std::string_view takes) {
  constexpr size_t kShownBytes = 64;
  return {ho::StatusCode::kInvalidArgument,
          fmt::format("{} '{}': takes {}", what, text.substr(0, kShownBytes), takes)};
}

struct Amount {
  double number = 0;
  std::string_view unit;
};

// Nothing where the text does not begin with a number that is finite and not negative.
std::optional<Amount> split(std::string_view text) {
  Amount amount;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, amount.number);
  if (error != std::errc() || !std::isfinite(amount.number) || std::signbit(amount.number)) {
    return std::nullopt;
  }
  amount.unit = std::string_view(rest, static_cast<size_t>(end - rest));
  while (!amount.unit.empty() && amount.unit.front() == ' ') {
    amount.unit.remove_prefix(1);
  }
  return amount;
}

// Takes k .. P or Ki .. Pi off the front of `unit`; what they stand for.
double take_prefix(std::string_view& unit) {
  constexpr std::string_view kPrefixes = "kmgtp";
  const auto first =
      unit.empty() ? '\0' : static_cast<char>(std::tolower(static_cast<unsigned char>(unit[0])));
  const size_t power = kPrefixes.find(first);
  if (power == std::string_view::npos) {
    return 1;
  }
  unit.remove_prefix(1);
  const bool binary = !unit.empty() && unit.front() == 'i';
  if (binary) {
    unit.remove_prefix(1);
  }
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

void take_per_second(std::string_view& unit) {
  for (const std::string_view ending : {"/s", "ps"}) {
    if (unit.ends_with(ending)) {
      unit.remove_suffix(ending.size());
      return;
    }
  }
}

using Factor = std::pair<std::string_view, double>;

template <size_t kCount>
std::optional<double> scaled(std::string_view text, const std::array<Factor, kCount>& factors) {
  const auto amount = split(text);
  if (!amount) {
    return std::nullopt;
  }
  for (const auto& [unit, factor] : factors) {
    if (amount->unit == unit) {
      return amount->number * factor;
    }
  }
  return std::nullopt;
}

}  // namespace

ho::Result<double> parse_size(std::string_view what, std::string_view text) {
  if (auto amount = split(text)) {
    if (amount->unit.empty() && amount->number > 0) {
      return refused(what, text, "bytes with their unit, as 80GB or 64GiB, or 80B for bytes alone");
    }
    const double factor = take_prefix(amount->unit);
    if (amount->unit == "B" || amount->unit.empty()) {
      return amount->number * factor;
    }
  }
  return refused(
      what, text, "bytes: a number that is not negative with its unit, as 80GB or 64GiB");
}

ho::Result<double> parse_rate(std::string_view what, std::string_view text) {
  if (auto amount = split(text); amount && amount->number > 0) {
    take_per_second(amount->unit);
    const double factor = take_prefix(amount->unit);
    if (amount->unit == "bit" || amount->unit == "b") {
      return amount->number * factor / 8;
    }
    if (amount->unit == "B") {
      return amount->number * factor;
    }
  }
  return refused(
      what, text, "a rate: a number above 0 with its unit, per second, as 80Gbit or 10GB");
}

ho::Result<double> parse_time(std::string_view what, std::string_view text) {
  constexpr std::array<Factor, 5> kUnits{
      {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"min", 60}, {"h", 3600}}};
  if (const auto seconds = scaled(text, kUnits)) {
    return *seconds;
  }
  if (const auto amount = split(text); amount && amount->number == 0 && amount->unit.empty()) {
    return 0;
  }
  return refused(what, text, "a time: a number that is not negative with us, ms, s, min or h");
}

ho::Result<double> parse_count(std::string_view what, std::string_view text) {
  constexpr std::array<Factor, 7> kUnits{
      {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}}};
  if (const auto count = scaled(text, kUnits); count && *count > 0) {
    return *count;
  }
  return refused(what, text, "a number above 0, as 7e9, 7B or 350M");
}

ho::Result<double> parse_number(std::string_view what, std::string_view text) {
  if (const auto amount = split(text); amount && amount->unit.empty()) {
    return amount->number;
  }
  return refused(what, text, "a number that is not negative");
}

ho::Result<double> parse_number_up_to(std::string_view what, std::string_view text, double most) {
  if (const auto amount = split(text); amount && amount->unit.empty() && amount->number <= most) {
    return amount->number;
  }
  return refused(what, text, fmt::format("a number from 0 to {}", most));
}

ho::Result<uint32_t> parse_whole(std::string_view what, std::string_view text, uint32_t least) {
  uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && rest == end && number >= least) {
    return number;
  }
  return refused(
      what,
      text,
      fmt::format("a whole number from {} to {}", least, std::numeric_limits<uint32_t>::max()));
}

}  // namespace paro::tool
