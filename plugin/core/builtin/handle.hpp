// What a listener tells the rank that is to connect to it: 128 bytes that NCCL carries. On arrival
// they are a peer's bytes, and are checked in full before one of them is used.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.hpp"
#include "core/builtin/net_options.hpp"
#include "core/driver/handle_secret.hpp"
#include "core/driver/net_driver.hpp"
#include "os/socket.hpp"

namespace ho::plugin {

inline constexpr size_t kSecretBytes = sizeof(HandleSecret);
// Of the connections: one that was recorded on another kind of port is worth nothing here.
inline constexpr const char* kHandshakePurpose = "nccl net";
// NCCL calls connect() with the same memory until there is a comm; the last bytes of it find the
// connect under way again. They never leave this process and mean nothing when they come from
// another one: see PendingConnects.
inline constexpr size_t kLocalIdBytes = 8;
inline constexpr size_t kWireHandleBytes = kHandleBytes - kLocalIdBytes;

inline constexpr size_t kMaxWhoBytes = 32;

struct Handle {
  int family = 0;                       // AF_INET or AF_INET6
  std::array<std::byte, 16> address{};  // 4 or 16 of them
  uint16_t port = 0;
  Carrier carrier = Carrier::kTcp;
  uint64_t listener_id = 0;
  HandleSecret secret{};
  std::string who = {};  // who listens, in at most kMaxWhoBytes

  // Without a scope: see address_on().
  [[nodiscard]] SocketAddress socket_address() const;
  [[nodiscard]] std::string to_string() const;  // "10.1.0.1:4000 (RANK 3 on node1)"
};

// Of the address that a listener is bound to.
[[nodiscard]] Result<Handle> handle_of(const SocketAddress& bound);

// Writes all kHandleBytes; the local id becomes 0.
void encode(const Handle& handle, std::span<std::byte, kHandleBytes> bytes);
[[nodiscard]] Result<Handle> decode_handle(std::span<const std::byte> bytes);

[[nodiscard]] uint64_t local_id(std::span<const std::byte, kHandleBytes> bytes);
void set_local_id(std::span<std::byte, kHandleBytes> bytes, uint64_t id);

}  // namespace ho::plugin
