// The receives of this rank that no message has been found for. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "exec/transfer.hpp"

namespace ho {

class PostedReceives {
 public:
  void post(Transfer& receive);
  // The first in the order of posting that takes a message of this rank with this tag, or nullptr.
  [[nodiscard]] Transfer* first_for(GlobalRank from, int32_t tag) const;
  void remove(const Transfer& receive);
  // Grows with each post.
  [[nodiscard]] uint64_t posts() const { return posts_; }

 private:
  static constexpr int64_t kAny = -1;
  using Key = std::pair<int64_t, int32_t>;  // rank or kAny, tag
  [[nodiscard]] static Key key_of(const Transfer& receive);
  [[nodiscard]] Transfer* front(const Key& key) const;

  std::map<Key, std::deque<Transfer*>> queues_;
  uint64_t posts_ = 0;
};

}  // namespace ho
