// What a member of a rail sends the others before they find each other, as the bytes of NCCL's
// listen handle. Pure. The bytes arrive from other ranks: everything in them is checked here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.hpp"
#include "core/driver/handle_secret.hpp"
#include "core/driver/net_driver.hpp"
#include "os/socket.hpp"

namespace ho::plugin::rail {

struct RailHandle {
  uint64_t id = 0;  // random: NCCL does not promise that handles are in the order of ranks
  HandleSecret secret{};
  SocketAddress address;  // where this member listens
};

using HandleBytes = std::array<std::byte, kHandleBytes>;
[[nodiscard]] HandleBytes encode(const RailHandle& handle);
// kUnsupported: these are no handle of ours; the member has another plugin, or none.
// kConnection: the member cannot take part, for the reason that it sends. kMismatch: of ours, but
// of another version. kProtocol: malformed.
[[nodiscard]] Result<RailHandle> decode_handle(std::span<const std::byte, kHandleBytes> bytes);

}  // namespace ho::plugin::rail
