#include "abi/releases.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

namespace nccl_abi {
namespace {

// Rows in order and apart, each with versions newest first.
constexpr bool in_order() {
  for (size_t i = 0; i < kReleases.size(); ++i) {
    const Release& row = kReleases[i];
    const bool apart = i == 0 || kReleases[i - 1].last < row.first;
    const auto falls = [](std::span<const int> list) {
      return std::is_sorted(list.rbegin(), list.rend());
    };
    if (!apart || row.last < row.first || !falls(row.net) || !falls(row.tuner) || !falls(row.env)) {
      return false;
    }
  }
  return true;
}
static_assert(in_order());

std::string version_text(const Version& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
         std::to_string(version.patch);
}

// Takes digits off the front.
std::optional<int> take_number(std::string_view& text) {
  if (text.starts_with('-')) {
    return std::nullopt;
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool take_dot(std::string_view& text) {
  if (!text.starts_with('.')) {
    return false;
  }
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::optional<Version> parse_version(std::string_view text) {
  const std::optional<int> major = take_number(text);
  if (!major || !take_dot(text)) {
    return std::nullopt;
  }
  const std::optional<int> minor = take_number(text);
  if (!minor || !take_dot(text)) {
    return std::nullopt;
  }
  const std::optional<int> patch = take_number(text);
  if (!patch || !(text.empty() || text.starts_with('-') || text.starts_with('+'))) {
    return std::nullopt;
  }
  return Version{*major, *minor, *patch};
}

std::optional<FoundRelease> find_release(Version version) {
  const auto after = std::ranges::upper_bound(kReleases, version, {}, &Release::first);
  if (after == kReleases.begin()) {
    return std::nullopt;
  }
  return FoundRelease{&*std::prev(after), kReleases.back().last < version};
}

std::optional<FoundRelease> find_release(std::string_view version) {
  const std::optional<Version> parsed = parse_version(version);
  return parsed ? find_release(*parsed) : std::nullopt;
}

std::string release_text(const Release& release) {
  return release.first == release.last
             ? version_text(release.first)
             : version_text(release.first) + " to " + version_text(release.last);
}

std::string releases_text(int least_net) {
  std::string text;
  for (const Release& row : kReleases) {
    if (row.net.front() >= least_net) {
      text += (text.empty() ? "" : ", ") + release_text(row);
    }
  }
  return text;
}

}  // namespace nccl_abi
