// What a user requests of a running job, in a small file:
//
//   # comments
//   IIG                (or: strategy=IIG)
//   budget=64000000    (bytes of states on the fullest rank; 0: no limit)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "strategy/strategy.hpp"

namespace paro::steering {

struct RequestedStrategy {
  std::optional<Strategy> strategy;
  std::optional<uint64_t> budget_bytes;
};

inline constexpr size_t kMaxRequestBytes = 4096;
// At least one of the two, each once; whatever else is in it is refused with its line.
[[nodiscard]] ho::Result<RequestedStrategy> parse_requested_strategy(std::string_view text);

// A file whose changes count, not what was there at first. Not there: no request.
class RequestedStrategyFile {
 public:
  explicit RequestedStrategyFile(std::string path);
  [[nodiscard]] const std::string& path() const { return path_; }
  // One stat() where nothing has changed. Otherwise the new content, or why it is refused: once
  // for each change.
  [[nodiscard]] std::optional<ho::Result<RequestedStrategy>> look();

 private:
  // Times in nanoseconds, inode, size, and stat()'s errno: what a change changes.
  using Identity = std::array<int64_t, 5>;
  [[nodiscard]] Identity identity() const;

  std::string path_;
  Identity seen_;
};

}  // namespace paro::steering
