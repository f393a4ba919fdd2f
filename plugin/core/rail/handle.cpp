#include "core/rail/handle.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "core/driver/turned_off.hpp"

namespace ho::plugin::rail {
namespace {

// Bytes: magic 8, version 4, family 2, port 2, id 8, secret 32, address 16, scope 4, zeros.
constexpr uint64_t kMagic = 0x6c69617267726f68U;  // "horgrail"
constexpr uint32_t kVersion = 2;                  // 2: two members exchange small windows
constexpr size_t kVersionAt = 8;
constexpr size_t kFamilyAt = 12;
constexpr size_t kPortAt = 14;
constexpr size_t kIdAt = 16;
constexpr size_t kSecretAt = 24;
constexpr size_t kAddressAt = 56;
constexpr size_t kScopeAt = 72;
constexpr size_t kEnd = 76;
static_assert(kSecretAt + sizeof(HandleSecret) == kAddressAt);
constexpr uint16_t kIpv4 = 4;
constexpr uint16_t kIpv6 = 6;

}  // namespace

HandleBytes encode(const RailHandle& handle) {
  HandleBytes bytes{};
  store_le(bytes, 0, kMagic);
  store_le(bytes, kVersionAt, kVersion);
  store_le(bytes, kPortAt, handle.address.port());
  store_le(bytes, kIdAt, handle.id);
  std::ranges::copy(handle.secret, bytes.begin() + kSecretAt);
  store_le(bytes, kFamilyAt, handle.address.family() == AF_INET ? kIpv4 : kIpv6);
  std::ranges::copy(handle.address.host_bytes(), bytes.begin() + kAddressAt);
  store_le(bytes, kScopeAt, handle.address.scope());
  return bytes;
}

Result<RailHandle> decode_handle(std::span<const std::byte, kHandleBytes> bytes) {
  HORING_TRY(check_not_off(bytes));
  if (load_le<uint64_t>(bytes, 0) != kMagic) {
    return Status(
        StatusCode::kUnsupported,
        "it does not use this plugin; set NCCL_NET_PLUGIN and install the same plugin on all "
        "nodes; if the log there has \"horing plugin: not usable\", it has the reason too");
  }
  const auto version = load_le<uint32_t>(bytes, kVersionAt);
  if (version != kVersion) {
    return Status(StatusCode::kMismatch,
                  fmt::format("its plugin's handles are of version {}, those of this one of {}; "
                              "install the same release everywhere",
                              version,
                              kVersion));
  }
  const auto family = load_le<uint16_t>(bytes, kFamilyAt);
  const auto port = load_le<uint16_t>(bytes, kPortAt);
  const bool padded = std::all_of(
      bytes.begin() + kEnd, bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
  if ((family != kIpv4 && family != kIpv6) || port == 0 || !padded) {
    return Status(StatusCode::kProtocol, "its handle is damaged");
  }
  RailHandle handle;
  handle.id = load_le<uint64_t>(bytes, kIdAt);
  std::copy_n(bytes.begin() + kSecretAt, handle.secret.size(), handle.secret.begin());
  SocketAddress::HostBytes host{};
  std::copy_n(bytes.begin() + kAddressAt, host.size(), host.begin());
  handle.address = SocketAddress::of(family == kIpv4 ? AF_INET : AF_INET6, host, port);
  if (family == kIpv6) {
    handle.address.set_scope(load_le<uint32_t>(bytes, kScopeAt));
  }
  return handle;
}

}  // namespace ho::plugin::rail
