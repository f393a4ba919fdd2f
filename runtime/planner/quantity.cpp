#include "planner/quantity.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <span>
#include <string_view>

namespace paro {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

// `units` from large to small. The first in which the value, rounded, is not below one.
std::string in_unit(double value, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    const double number = value / unit.size;
    if (number >= 0.9995) {
      return number < 999.5 ? fmt::format("{:.3g}{}", number, unit.name)
                            : fmt::format("{:.0f}{}", number, unit.name);
    }
  }
  return fmt::format("{:.3g}{}", value / units.back().size, units.back().name);
}

}  // namespace

std::string bytes_text(double bytes) {
  constexpr std::array kUnits{
      Unit{" TB", 1e12}, Unit{" GB", 1e9}, Unit{" MB", 1e6}, Unit{" kB", 1e3}, Unit{" B", 1}};
  return in_unit(bytes, kUnits);
}

std::string count_text(double count) {
  constexpr std::array kUnits{Unit{" trillion", 1e12},
                              Unit{" billion", 1e9},
                              Unit{" million", 1e6},
                              Unit{" thousand", 1e3},
                              Unit{"", 1}};
  return in_unit(count, kUnits);
}

std::string seconds_text(double seconds) {
  constexpr std::array kUnits{Unit{" s", 1}, Unit{" ms", 1e-3}, Unit{" us", 1e-6}};
  return seconds == 0 ? "0 s" : in_unit(seconds, kUnits);
}

}  // namespace paro
