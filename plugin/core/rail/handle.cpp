#include "core/rail/handle.hpp"

#include <netinet/in.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>

#include "core/turned_off.hpp"

namespace ho::plugin::rail {
namespace {

// Offsets: magic 0, version 8, family 12, port 14, id 16, secret 24, address 56, scope 72,
// zeros 76.
constexpr uint64_t kMagic = 0x6c69617267726f68U;  // "horgrail"
constexpr uint32_t kVersion = 2;                  // 2: two members exchange small windows
constexpr size_t kEnd = 76;
constexpr uint16_t kIpv4 = 4;
constexpr uint16_t kIpv6 = 6;

template <typename T>
void put(HandleBytes& bytes, size_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

template <typename T>
T get(std::span<const std::byte, kHandleBytes> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

SocketAddress ipv4(std::span<const std::byte, kHandleBytes> bytes) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  std::memcpy(&address.sin_addr, bytes.data() + 56, sizeof(address.sin_addr));
  return {reinterpret_cast<const sockaddr*>(&address), sizeof(address)};
}

SocketAddress ipv6(std::span<const std::byte, kHandleBytes> bytes) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  std::memcpy(&address.sin6_addr, bytes.data() + 56, sizeof(address.sin6_addr));
  address.sin6_scope_id = get<uint32_t>(bytes, 72);
  return {reinterpret_cast<const sockaddr*>(&address), sizeof(address)};
}

}  // namespace

HandleBytes encode(const RailHandle& handle) {
  HandleBytes bytes{};
  put(bytes, 0, kMagic);
  put(bytes, 8, kVersion);
  put(bytes, 14, handle.address.port());
  put(bytes, 16, handle.id);
  put(bytes, 24, handle.secret);
  if (handle.address.family() == AF_INET) {
    put(bytes, 12, kIpv4);
    put(bytes, 56, reinterpret_cast<const sockaddr_in*>(handle.address.get())->sin_addr);
  } else {
    const auto* const address = reinterpret_cast<const sockaddr_in6*>(handle.address.get());
    put(bytes, 12, kIpv6);
    put(bytes, 56, address->sin6_addr);
    put(bytes, 72, address->sin6_scope_id);
  }
  return bytes;
}

Result<RailHandle> decode_handle(std::span<const std::byte, kHandleBytes> bytes) {
  HORING_TRY(check_not_off(bytes));
  if (get<uint64_t>(bytes, 0) != kMagic) {
    return Status(
        StatusCode::kUnsupported,
        "it does not use this plugin; set NCCL_NET_PLUGIN and install the plugin alike "
        "on all nodes; where the log there says \"horing plugin: not usable\", it says why");
  }
  const auto version = get<uint32_t>(bytes, 8);
  if (version != kVersion) {
    return Status(StatusCode::kMismatch,
                  fmt::format("its plugin's handles are of version {}, those of this one of {}; "
                              "install the same release everywhere",
                              version,
                              kVersion));
  }
  const auto family = get<uint16_t>(bytes, 12);
  const auto port = get<uint16_t>(bytes, 14);
  const bool padded = std::all_of(
      bytes.begin() + kEnd, bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
  if ((family != kIpv4 && family != kIpv6) || port == 0 || !padded) {
    return Status(StatusCode::kProtocol, "its handle is damaged");
  }
  RailHandle handle;
  handle.id = get<uint64_t>(bytes, 16);
  handle.secret = get<HandleSecret>(bytes, 24);
  handle.address = family == kIpv4 ? ipv4(bytes) : ipv6(bytes);
  handle.address.set_port(port);
  return handle;
}

}  // namespace ho::plugin::rail
