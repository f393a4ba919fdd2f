// What the two ends of a comm over UCX send each other. The connecting end sends first, over the
// authenticated TCP connection; the other answers over UCX, with the first one's nonce.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace ho::plugin {

struct UcxHandshake {
  std::array<std::byte, 16> nonce{};
  uint32_t secret = 0;             // of the comm's tags; at most kMaxSecret
  std::string who;                 // "node7 eth0", for messages
  std::vector<std::byte> address;  // of the UCX worker
};
inline constexpr uint32_t kMaxSecret = 0xffffff;
// Far above what UCX needs for many devices.
inline constexpr size_t kMaxHandshakeBytes = 65536;

[[nodiscard]] std::vector<std::byte> encode(const UcxHandshake& handshake);
[[nodiscard]] Result<UcxHandshake> decode_handshake(std::span<const std::byte> bytes);

}  // namespace ho::plugin
