#include "core/rail/handle.hpp"

#include <netinet/in.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "core/turned_off.hpp"

namespace ho::plugin::rail {
namespace {

// Offsets: magic 0, version 8, family 12, port 14, id 16, secret 24, address 56, scope 72,
// zeros 76.
constexpr uint64_t kMagic = 0x6c69617267726f68U;  // "horgrail"
constexpr uint32_t kVersion = 1;
constexpr size_t kSecretAt = 24;
constexpr size_t kAddressAt = 56;
constexpr size_t kEnd = 76;
constexpr uint16_t kIpv4 = 4;
constexpr uint16_t kIpv6 = 6;

SocketAddress ipv4(std::span<const std::byte, kHandleBytes> bytes) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  std::memcpy(&address.sin_addr, bytes.data() + kAddressAt, sizeof(address.sin_addr));
  return {reinterpret_cast<const sockaddr*>(&address), sizeof(address)};
}

SocketAddress ipv6(std::span<const std::byte, kHandleBytes> bytes) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  std::memcpy(&address.sin6_addr, bytes.data() + kAddressAt, sizeof(address.sin6_addr));
  address.sin6_scope_id = load_le<uint32_t>(bytes, 72);
  return {reinterpret_cast<const sockaddr*>(&address), sizeof(address)};
}

}  // namespace

HandleBytes encode(const RailHandle& handle) {
  HandleBytes bytes{};
  store_le(bytes, 0, kMagic);
  store_le(bytes, 8, kVersion);
  store_le(bytes, 14, handle.address.port());
  store_le(bytes, 16, handle.id);
  std::ranges::copy(handle.secret, bytes.begin() + kSecretAt);
  if (handle.address.family() == AF_INET) {
    store_le(bytes, 12, kIpv4);
    const auto* const address = reinterpret_cast<const sockaddr_in*>(handle.address.get());
    std::memcpy(bytes.data() + kAddressAt, &address->sin_addr, sizeof address->sin_addr);
  } else {
    const auto* const address = reinterpret_cast<const sockaddr_in6*>(handle.address.get());
    store_le(bytes, 12, kIpv6);
    std::memcpy(bytes.data() + kAddressAt, &address->sin6_addr, sizeof address->sin6_addr);
    store_le(bytes, 72, address->sin6_scope_id);
  }
  return bytes;
}

Result<RailHandle> decode_handle(std::span<const std::byte, kHandleBytes> bytes) {
  HORING_TRY(check_not_off(bytes));
  if (load_le<uint64_t>(bytes, 0) != kMagic) {
    return Status(
        StatusCode::kUnsupported,
        "it does not use this plugin; set NCCL_NET_PLUGIN and install the plugin alike "
        "on all nodes; where the log there says \"horing plugin: not usable\", it says why");
  }
  const auto version = load_le<uint32_t>(bytes, 8);
  if (version != kVersion) {
    return Status(StatusCode::kMismatch,
                  fmt::format("its plugin's handles are of version {}, those of this one of {}; "
                              "install the same release everywhere",
                              version,
                              kVersion));
  }
  const auto family = load_le<uint16_t>(bytes, 12);
  const auto port = load_le<uint16_t>(bytes, 14);
  const bool padded = std::all_of(
      bytes.begin() + kEnd, bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
  if ((family != kIpv4 && family != kIpv6) || port == 0 || !padded) {
    return Status(StatusCode::kProtocol, "its handle is damaged");
  }
  RailHandle handle;
  handle.id = load_le<uint64_t>(bytes, 16);
  std::ranges::copy(bytes.subspan<kSecretAt, sizeof handle.secret>(), handle.secret.begin());
  handle.address = family == kIpv4 ? ipv4(bytes) : ipv6(bytes);
  handle.address.set_port(port);
  return handle;
}

}  // namespace ho::plugin::rail
