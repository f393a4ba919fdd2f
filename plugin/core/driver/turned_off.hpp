// How a rank whose plugin cannot work tells the ranks that want to reach it: NCCL carries nothing
// for it but the handles of listeners, and the connections that it makes itself.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "core/driver/net_driver.hpp"

namespace ho::plugin {

// Who: "RANK 3 on node1".
struct TurnedOff {
  std::string who;
  std::string why;
};

// Of this process.
[[nodiscard]] TurnedOff turned_off_here(const Status& why);

// In place of a listener's handle: it leads nowhere. What is too long for it is cut.
void encode(const TurnedOff& off, std::span<std::byte, kHandleBytes> handle);
// In place of a connection's claim, at most Handshake's 256 bytes.
[[nodiscard]] std::vector<std::byte> claim_of(const TurnedOff& off);

// An error that says who and why where the bytes, a handle or a claim, are those of a rank that is
// turned off. Any others are good here.
[[nodiscard]] Status check_not_off(std::span<const std::byte> bytes);

}  // namespace ho::plugin
