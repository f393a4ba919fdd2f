// What the other ranks of a job say, gathered by one that `horing status` has asked for it: as
// lines "RANK {..}" (a report), "RANK gone" (it has no connection), "RANK left out" (there is no
// room for its report) and "RANK" (no answer).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/clock.hpp"

namespace ho {

class OtherRanks {
 public:
  static constexpr size_t kMaxBytes = size_t{32} << 20U;

  OtherRanks(uint32_t self, uint32_t world_size, Deadline end)
      : self_(self), world_size_(world_size), end_(end) {}

  // The rank is asked; over several control planes where one may reach it and another not.
  void expect(uint32_t rank) { ++expected_[rank]; }
  [[nodiscard]] bool expects(uint32_t rank) const { return expected_.contains(rank); }
  // Empty: the rank is gone, as the last of those over which it was asked says it. What no rank can
  // have said counts for nothing.
  void take(uint32_t rank, std::string_view report);
  [[nodiscard]] bool complete() const { return lines_.size() + 1 >= world_size_; }
  [[nodiscard]] bool over(Deadline now) const { return complete() || now >= end_; }
  [[nodiscard]] Deadline end() const { return end_; }
  [[nodiscard]] std::string text() const;

 private:
  uint32_t self_;
  uint32_t world_size_;
  Deadline end_;
  size_t bytes_ = 0;
  std::map<uint32_t, size_t> expected_;  // answers that have not come
  std::map<uint32_t, std::string> lines_;
};

// One line; nothing: it is none. The text after the rank, without the space between them.
[[nodiscard]] std::optional<std::pair<uint32_t, std::string_view>> parse_other_rank(
    std::string_view line);

}  // namespace ho
