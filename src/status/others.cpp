#include "status/others.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/quantity.hpp"

namespace ho {

void OtherRanks::take(uint32_t rank, std::string_view report) {
  if (rank >= world_size_ || rank == self_) {
    return;
  }
  size_t& expected = expected_[rank];
  expected -= std::min<size_t>(expected, 1);
  if (report.empty() && expected > 0) {
    return;
  }
  const bool fits = report.size() <= kMaxBytes - bytes_;
  const auto [line, is_new] = lines_.try_emplace(rank);
  if (!is_new) {
    return;
  }
  line->second = report.empty() ? "gone" : fits ? report : "left out";
  std::ranges::replace(line->second, '\n', ' ');
  bytes_ += fits ? report.size() : 0;
}

std::string OtherRanks::text() const {
  std::string text;
  for (uint32_t rank = 0; rank < world_size_; ++rank) {
    const auto line = lines_.find(rank);
    if (line != lines_.end()) {
      text += fmt::format("{} {}\n", rank, line->second);
    } else if (rank != self_) {
      text += fmt::format("{}\n", rank);
    }
  }
  return text;
}

std::optional<std::pair<uint32_t, std::string_view>> parse_other_rank(std::string_view line) {
  const size_t end = line.find(' ');
  const auto rank = whole_number<uint32_t>(line.substr(0, end));
  if (!rank) {
    return std::nullopt;
  }
  return std::pair(*rank, end == std::string_view::npos ? "" : line.substr(end + 1));
}

}  // namespace ho
