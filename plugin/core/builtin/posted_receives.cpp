#include "core/builtin/posted_receives.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace ho::plugin {

std::array<uint8_t, kMaxRequests> PostedReceives::first_order() {
  std::array<uint8_t, kMaxRequests> order{};
  std::iota(order.begin(), order.end(), uint8_t{0});
  return order;
}

Status PostedReceives::add(const ReceiveCredit& record) {
  if (record.sequence != next_sequence_ || count_ == kMaxRequests || record.count == 0 ||
      record.count > kMaxReceives) {
    return {StatusCode::kProtocol,
            "the peer announced receive " + std::to_string(record.sequence) + " of " +
                std::to_string(record.count) + " messages where number " +
                std::to_string(next_sequence_) + " was due and " + std::to_string(count_) +
                " of at most " + std::to_string(kMaxRequests) + " were waiting"};
  }
  Group& group = groups_.at(order_.at(count_));
  group.record = record;
  group.open.reset();
  for (uint32_t slot = 0; slot < record.count; ++slot) {
    group.open.set(slot);
  }
  ++count_;
  ++next_sequence_;
  return {};
}

std::optional<PostedReceives::Slot> PostedReceives::take(int32_t tag) {
  for (size_t i = 0; i < count_; ++i) {
    Group& group = groups_.at(order_.at(i));
    for (uint32_t slot = 0; slot < group.record.count; ++slot) {
      if (!group.open.test(slot) || group.record.tags.at(slot) != tag) {
        continue;
      }
      group.open.reset(slot);
      const Slot posted{group.record.sequence, slot, group.record.capacities.at(slot)};
      if (group.open.none()) {
        const auto at = order_.begin() + static_cast<ptrdiff_t>(i);
        std::rotate(at, at + 1, order_.begin() + static_cast<ptrdiff_t>(count_));
        --count_;
      }
      return posted;
    }
  }
  return std::nullopt;
}

}  // namespace ho::plugin
