#include "connect/refusals.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace ho {

void Refusals::note(std::string_view from, std::string_view why) {
  auto reason =
      std::ranges::find_if(reasons_, [why](const Reason& each) { return each.why == why; });
  if (reason == reasons_.end()) {
    if (reasons_.size() == kMaxReasons) {
      // A stranger may make up reasons: the newest one always has a place.
      others_ += reasons_.back().count;
      reasons_.pop_back();
    }
    reason = reasons_.insert(reasons_.end(), Reason{std::string(why), "", 0});
  }
  reason->from = from;
  ++reason->count;
}

void Refusals::clear() {
  reasons_.clear();
  others_ = 0;
}

std::string Refusals::text() const {
  uint64_t all = others_;
  std::string list;
  for (const Reason& reason : reasons_) {
    all += reason.count;
    list += fmt::format("{}{}{}: {}",
                        list.empty() ? "" : "; ",
                        reason.count == 1 ? "" : fmt::format("{} times, at last ", reason.count),
                        reason.from,
                        reason.why);
  }
  if (all == 0) {
    return {};
  }
  return fmt::format("{} came and {} sent away: {}{}",
                     all == 1 ? "1 connection" : fmt::format("{} connections", all),
                     all == 1 ? "was" : "were",
                     list,
                     others_ == 0 ? "" : fmt::format("; {} for other reasons", others_));
}

}  // namespace ho
