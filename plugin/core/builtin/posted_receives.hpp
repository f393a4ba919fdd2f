// The sender's list of the buffers that the receiver has announced and that no message has taken.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/status.hpp"
#include "core/builtin/records.hpp"

namespace ho::plugin {

class PostedReceives {
 public:
  struct Slot {
    uint64_t sequence = 0;
    uint32_t slot = 0;
    uint64_t capacity = 0;
  };

  // An error (kProtocol) for a record that no receiver of ours sends.
  [[nodiscard]] Status add(const ReceiveCredit& record);
  // The oldest buffer with that tag, which is then taken; nothing where there is none yet.
  [[nodiscard]] std::optional<Slot> take(int32_t tag);
  [[nodiscard]] size_t groups() const { return count_; }

 private:
  struct Group {
    ReceiveCredit record;
    std::bitset<kMaxReceives> open;
  };
  std::array<Group, kMaxRequests> groups_;
  // The groups in use, oldest first, then the others: taking one out moves a few bytes only.
  std::array<uint8_t, kMaxRequests> order_ = first_order();
  size_t count_ = 0;
  uint64_t next_sequence_ = 1;

  [[nodiscard]] static std::array<uint8_t, kMaxRequests> first_order();
};

}  // namespace ho::plugin
