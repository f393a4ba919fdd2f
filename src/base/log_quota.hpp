// Keeps a log readable when something that strangers can cause happens again and again. The first
// few times are logged one by one, later ones at most once per interval, with the count of those
// that were left out.
//
//   if (const auto left_out = quota.take(now_ns())) {
//     log_warn("refused a connection from {}{}", from, LogQuota::note(*left_out));
//   }
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ho {

// One per kind of message. Not thread-safe.
class LogQuota {
 public:
  static constexpr uint32_t kFirst = 5;
  static constexpr int64_t kIntervalNs = 60'000'000'000;

  explicit LogQuota(uint32_t first = kFirst, int64_t interval_ns = kIntervalNs)
      : first_left_(first), interval_ns_(interval_ns) {}

  // Call each time that it happens. A value: log it now; so many were left out since the last one
  // that was logged. None: leave this one out. `now_ns` is of a clock that never runs backwards.
  [[nodiscard]] std::optional<uint64_t> take(int64_t now_ns) {
    if (first_left_ > 0) {
      --first_left_;
    } else if (now_ns - logged_ns_ < interval_ns_) {
      ++left_out_;
      return std::nullopt;
    }
    logged_ns_ = now_ns;
    const uint64_t left_out = left_out_;
    left_out_ = 0;
    return left_out;
  }

  // The end of a message, with the number of those that were left out; empty for 0.
  [[nodiscard]] static std::string note(uint64_t left_out) {
    return left_out == 0 ? "" : " (" + std::to_string(left_out) + " more like it were not logged)";
  }

 private:
  uint32_t first_left_;
  int64_t interval_ns_;
  int64_t logged_ns_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace ho
