#include "core/rail/consistency.hpp"

#include <utility>

#include "auth/printable.hpp"
#include "base/quantity.hpp"

namespace ho::plugin::rail {
namespace {

constexpr size_t kMaxTextBytes = 80;

std::string escaped(std::string_view text) {
  return text.empty() ? "(none)" : printable(text, kMaxTextBytes);
}

}  // namespace

std::optional<Difference> first_difference(std::string_view first, std::string_view second) {
  while (!first.empty() || !second.empty()) {
    const std::string_view one = take_until(first, '\n');
    const std::string_view other = take_until(second, '\n');
    if (one == other) {
      continue;
    }
    std::string_view left = one;
    std::string_view right = other;
    const std::string_view what = take_until(left, '=');
    if (what == take_until(right, '=')) {
      return Difference{escaped(what), escaped(left), escaped(right)};
    }
    return Difference{"settings", escaped(one), escaped(other)};
  }
  return std::nullopt;
}

}  // namespace ho::plugin::rail
