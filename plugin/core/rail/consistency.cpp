#include "core/rail/consistency.hpp"

#include <utility>

#include "auth/printable.hpp"
#include "base/quantity.hpp"

namespace ho::plugin::rail {
namespace {

constexpr size_t kMaxTextBytes = 80;

struct Line {
  std::string_view what;
  std::string_view value;
};

Line parts(std::string_view line) {
  const size_t equals = line.find('=');
  return equals == std::string_view::npos ? Line{line, ""}
                                          : Line{line.substr(0, equals), line.substr(equals + 1)};
}

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
    const Line left = parts(one);
    const Line right = parts(other);
    if (left.what == right.what) {
      return Difference{escaped(left.what), escaped(left.value), escaped(right.value)};
    }
    return Difference{"settings", escaped(one), escaped(other)};
  }
  return std::nullopt;
}

}  // namespace ho::plugin::rail
