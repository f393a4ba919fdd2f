#include "core/builtin/room_book.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace ho::plugin {

std::array<uint8_t, kMostRequests> RoomBook::first_order() {
  std::array<uint8_t, kMostRequests> order{};
  std::iota(order.begin(), order.end(), uint8_t{0});
  return order;
}

Status RoomBook::add(const RoomRecord& record) {
  if (record.sequence != next_sequence_ || count_ == kMostRequests || record.count == 0 ||
      record.count > kMostReceives) {
    return {StatusCode::kProtocol,
            "the peer announced receive " + std::to_string(record.sequence) + " of " +
                std::to_string(record.count) + " messages where number " +
                std::to_string(next_sequence_) + " was due and " + std::to_string(count_) +
                " of at most " + std::to_string(kMostRequests) + " were waiting"};
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

std::optional<RoomBook::Place> RoomBook::take(int32_t tag) {
  for (size_t i = 0; i < count_; ++i) {
    Group& group = groups_.at(order_.at(i));
    for (uint32_t slot = 0; slot < group.record.count; ++slot) {
      if (!group.open.test(slot) || group.record.tags.at(slot) != tag) {
        continue;
      }
      group.open.reset(slot);
      const Place place{group.record.sequence, slot, group.record.rooms.at(slot)};
      if (group.open.none()) {
        const auto at = order_.begin() + static_cast<ptrdiff_t>(i);
        std::rotate(at, at + 1, order_.begin() + static_cast<ptrdiff_t>(count_));
        --count_;
      }
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace ho::plugin
