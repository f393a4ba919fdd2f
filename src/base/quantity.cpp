#include "base/quantity.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <span>
#include <utility>

namespace ho {
namespace {

Status refused(std::string_view what, std::string_view text, std::string_view takes) {
  constexpr size_t kMaxTextBytes = 64;
  return invalid(fmt::format("{} '{}': takes {}", what, text.substr(0, kMaxTextBytes), takes));
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

char lower(char letter) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

// Takes k .. P or Ki .. Pi off the front of `unit`; what they stand for.
double take_prefix(std::string_view& unit) {
  constexpr std::string_view kPrefixes = "kmgtp";
  const size_t power = unit.empty() ? unit.npos : kPrefixes.find(lower(unit.front()));
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

std::optional<double> bytes_per_second(std::string_view text) {
  auto amount = split(text);
  if (!amount) {
    return std::nullopt;
  }
  take_per_second(amount->unit);
  const double bytes = amount->number * take_prefix(amount->unit);
  if (amount->unit == "bit" || amount->unit == "b") {
    return bytes / 8;
  }
  return amount->unit == "B" ? std::optional(bytes) : std::nullopt;
}

using Factor = std::pair<std::string_view, double>;

std::optional<double> scaled(std::string_view text, std::span<const Factor> factors) {
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

// `units` from large to small. The first in which the value, rounded, is not below one.
std::string in_unit(double value, std::span<const Factor> units) {
  for (const auto& [name, size] : units) {
    const double number = value / size;
    if (number >= 0.9995) {
      return number < 999.5 ? fmt::format("{:.3g}{}", number, name)
                            : fmt::format("{:.0f}{}", number, name);
    }
  }
  return fmt::format("{:.3g}{}", value / units.back().second, units.back().first);
}

}  // namespace

std::string_view take_until(std::string_view& text, char mark) {
  const std::string_view part = text.substr(0, text.find(mark));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

std::string ranges_text(std::span<const uint32_t> numbers, std::string_view separator) {
  std::string text;
  for (size_t first = 0; first < numbers.size();) {
    size_t end = first + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) {
      ++end;
    }
    text += fmt::format("{}{}", first == 0 ? "" : separator, numbers[first]);
    text += end - first > 1 ? fmt::format("-{}", numbers[end - 1]) : "";
    first = end;
  }
  return text;
}

std::optional<uint64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kPrefixes = "kmgt";
  uint64_t shift = 0;
  if (!text.empty()) {
    const size_t power = kPrefixes.find(lower(text.back()));
    if (power != std::string_view::npos) {
      shift = 10 * (power + 1);
      text.remove_suffix(1);
    }
  }
  const auto number = whole_number<uint64_t>(text);
  return number && *number <= (UINT64_MAX >> shift) ? std::optional(*number << shift)
                                                    : std::nullopt;
}

Result<double> parse_size(std::string_view what, std::string_view text) {
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

Result<double> parse_rate(std::string_view what, std::string_view text) {
  if (const auto rate = bytes_per_second(text); rate && *rate > 0) {
    return *rate;
  }
  return refused(
      what, text, "a rate: a number above 0 with its unit, per second, as 80Gbit or 10GB");
}

Result<uint64_t> parse_rate_limit(std::string_view what,
                                  std::string_view text,
                                  uint64_t most_mbit) {
  constexpr double kMbit = 1e6 / 8;
  const auto number = whole_number<uint64_t>(text == "none" ? "0" : text);
  const double mbit =
      number ? static_cast<double>(*number) : bytes_per_second(text).value_or(-1) / kMbit;
  const double whole = std::round(mbit);  // 1.001 has no exact value
  if (mbit >= 0 && whole <= static_cast<double>(most_mbit) &&
      std::abs(mbit - whole) <= 1e-9 * whole) {
    return static_cast<uint64_t>(whole);
  }
  return refused(what,
                 text,
                 fmt::format("whole Mbit/s with mbit or gbit (200mbit), up to {}gbit, or none for "
                             "no limit",
                             most_mbit / 1000));
}

Result<double> parse_time(std::string_view what, std::string_view text) {
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

Result<double> parse_count(std::string_view what, std::string_view text) {
  constexpr std::array<Factor, 7> kUnits{
      {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}}};
  if (const auto count = scaled(text, kUnits); count && *count > 0) {
    return *count;
  }
  return refused(what, text, "a number above 0, as 7e9, 7B or 350M");
}

Result<double> parse_number(std::string_view what, std::string_view text) {
  if (const auto amount = split(text); amount && amount->unit.empty()) {
    return amount->number;
  }
  return refused(what, text, "a number that is not negative");
}

Result<double> parse_number_up_to(std::string_view what, std::string_view text, double most) {
  if (const auto amount = split(text); amount && amount->unit.empty() && amount->number <= most) {
    return amount->number;
  }
  return refused(what, text, fmt::format("a number from 0 to {}", most));
}

Result<uint32_t> parse_whole(std::string_view what, std::string_view text, uint32_t least) {
  return parse_whole_up_to(what, text, least, UINT32_MAX);
}

Result<uint32_t> parse_whole_up_to(std::string_view what,
                                   std::string_view text,
                                   uint32_t least,
                                   uint32_t most) {
  if (const auto number = whole_number<uint32_t>(text);
      number && *number >= least && *number <= most) {
    return *number;
  }
  return refused(what, text, fmt::format("a whole number from {} to {}", least, most));
}

std::string bytes_text(double bytes) {
  constexpr std::array<Factor, 5> kUnits{
      {{" TB", 1e12}, {" GB", 1e9}, {" MB", 1e6}, {" kB", 1e3}, {" B", 1}}};
  return in_unit(bytes, kUnits);
}

std::string count_text(double count) {
  constexpr std::array<Factor, 5> kUnits{
      {{" trillion", 1e12}, {" billion", 1e9}, {" million", 1e6}, {" thousand", 1e3}, {"", 1}}};
  return in_unit(count, kUnits);
}

std::string seconds_text(double seconds) {
  constexpr std::array<Factor, 3> kUnits{{{" s", 1}, {" ms", 1e-3}, {" us", 1e-6}}};
  return seconds == 0 ? "0 s" : in_unit(seconds, kUnits);
}

std::string exact_bytes_text(uint64_t bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  uint64_t size = 1;
  // The largest unit of which there is a whole number of quarters.
  while (unit + 1 < kUnits.size() && bytes >= size * 1024 && bytes % (size * 256) == 0) {
    ++unit;
    size *= 1024;
  }
  if (bytes / size >= 1024 && unit + 1 < kUnits.size()) {
    return fmt::format("{} B", bytes);
  }
  return fmt::format(
      "{:.15g} {}", static_cast<double>(bytes) / static_cast<double>(size), kUnits[unit]);
}

std::string counted(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace ho
