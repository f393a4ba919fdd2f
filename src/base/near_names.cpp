#include "base/near_names.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ho {
namespace {

// Names are short; a long text is no name.
constexpr size_t kMaxNameBytes = 64;

char folded(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// To the known name, or where that is nearer to what it has before a separator: h1000 is one letter
// from the h100 of h100-sxm. Of a short name one letter is much.
size_t distance_to(std::string_view name, std::string_view known) {
  size_t nearest = edit_distance(name, known);
  for (size_t at = known.find_first_of("-._"); at != std::string_view::npos;
       at = known.find_first_of("-._", at + 1)) {
    const size_t distance = edit_distance(name, known.substr(0, at));
    nearest = distance <= name.size() / 5 ? std::min(nearest, distance) : nearest;
  }
  return nearest;
}

std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (const std::string_view name : names) {
    text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // of the first characters of a, to each beginning of b
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (folded(a[i]) == folded(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string_view> near_names(std::string_view name,
                                         const std::vector<std::string_view>& known,
                                         size_t most) {
  std::vector<std::pair<size_t, std::string_view>> near;
  if (name.empty() || name.size() > kMaxNameBytes) {
    return {};
  }
  for (const std::string_view each : known) {
    const size_t shorter = std::min(name.size(), each.size());
    const bool begins =
        shorter > 1 && edit_distance(name.substr(0, shorter), each.substr(0, shorter)) == 0;
    const size_t distance = distance_to(name, each);
    if (begins || distance <= std::max<size_t>(name.size() / 3, 1)) {
      near.emplace_back(begins ? 0 : distance, each);
    }
  }
  std::ranges::stable_sort(near, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string_view> names;
  for (size_t at = 0; at < std::min(most, near.size()); ++at) {
    names.push_back(near[at].second);
  }
  return names;
}

std::string near_names_text(std::string_view name, const std::vector<std::string_view>& known) {
  const auto near = near_names(name, known);
  return near.empty() ? "; takes " + joined(known) : "; near it: " + joined(near);
}

}  // namespace ho
