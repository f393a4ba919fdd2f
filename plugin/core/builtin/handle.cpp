#include "core/builtin/handle.hpp"

#include <algorithm>
#include <string_view>

#include "auth/printable.hpp"
#include "base/bytes.hpp"
#include "base/hash.hpp"

namespace ho::plugin {
namespace {

constexpr uint64_t kMagic = 0x0a0d54454e524f48;  // "HORNET\r\n"
constexpr uint16_t kVersion = 3;

// magic 8, version 2, family 1, carrier 1, port 2, zero 6, address 16, zero 4, listener's number 8,
// secret, who listens (zeros behind it), sum 8
constexpr size_t kVersionAt = 8;
constexpr size_t kFamilyAt = 10;
constexpr size_t kCarrierAt = 11;
constexpr size_t kPortAt = 12;
constexpr size_t kAddressAt = 20;
constexpr size_t kListenerAt = 40;
constexpr size_t kSecretAt = 48;
constexpr size_t kWhoAt = kSecretAt + kSecretBytes;
constexpr size_t kSumAt = kWhoAt + kMaxWhoBytes;
static_assert(kSumAt + 8 == kWireHandleBytes);

constexpr std::byte kFour{4};
constexpr std::byte kSix{6};

// Tells a handle that was cut off or overwritten in part, not one that was forged. The handshake is
// what proves the secret.
uint64_t sum_of(std::span<const std::byte> bytes) {
  return Hash().add(bytes).value();
}

bool all_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{}; });
}

Status bad(const char* what) {
  return {
      StatusCode::kProtocol,
      std::string("the handle to connect to is none of this library's: ") + what +
          "; all ranks must load the same release of the plugin, and where one turned itself off "
          "its log says \"horing plugin: not usable\" and why"};
}

Status check_address(const Handle& handle) {
  const auto first = std::to_integer<unsigned>(handle.address[0]);
  const bool four = handle.family == AF_INET;
  if (all_zero(handle.address) || first == 0xff || (four && first >= 0xe0)) {
    return bad("its address is none of a host");
  }
  if (four && !all_zero(std::span(handle.address).subspan(4))) {
    return bad("its IPv4 address is too long");
  }
  return {};
}

}  // namespace

SocketAddress Handle::socket_address() const {
  return SocketAddress::of(family, address, port);
}

std::string Handle::to_string() const {
  return socket_address().to_string() + (who.empty() ? "" : " (" + who + ")");
}

Result<Handle> handle_of(const SocketAddress& bound) {
  if (bound.family() != AF_INET && bound.family() != AF_INET6) {
    return Status(StatusCode::kUnsupported, "neither an IPv4 nor an IPv6 address");
  }
  Handle handle;
  handle.family = bound.family();
  handle.address = bound.host_bytes();
  handle.port = bound.port();
  return handle;
}

void encode(const Handle& handle, std::span<std::byte, kHandleBytes> bytes) {
  std::ranges::fill(bytes, std::byte{});
  store_le(bytes, 0, kMagic);
  store_le(bytes, kVersionAt, kVersion);
  bytes[kFamilyAt] = handle.family == AF_INET6 ? kSix : kFour;
  bytes[kCarrierAt] = static_cast<std::byte>(handle.carrier);
  store_le(bytes, kPortAt, handle.port);
  std::ranges::copy(handle.address, bytes.begin() + kAddressAt);
  store_le(bytes, kListenerAt, handle.listener_id);
  std::ranges::copy(handle.secret, bytes.begin() + kSecretAt);
  const std::string who = shortened(handle.who, kMaxWhoBytes);
  std::ranges::copy(std::as_bytes(std::span(who)), bytes.begin() + kWhoAt);
  store_le(bytes, kSumAt, sum_of(bytes.first(kSumAt)));
}

Result<Handle> decode_handle(std::span<const std::byte> bytes) {
  if (bytes.size() != kHandleBytes || load_le<uint64_t>(bytes, 0) != kMagic) {
    return bad("it does not begin as one");
  }
  if (load_le<uint16_t>(bytes, kVersionAt) != kVersion) {
    return bad("it is of another version");
  }
  if (load_le<uint64_t>(bytes, kSumAt) != sum_of(bytes.first(kSumAt))) {
    return bad("it is damaged or cut off");
  }
  const std::byte family = bytes[kFamilyAt];
  const auto carrier = std::to_integer<uint8_t>(bytes[kCarrierAt]);
  const bool known_carrier = carrier < kCarriers;
  const bool gaps = known_carrier && all_zero(bytes.subspan(kPortAt + 2, 6)) &&
                    all_zero(bytes.subspan(kAddressAt + 16, 4));
  if ((family != kFour && family != kSix) || !gaps) {
    return bad("it holds what its version does not know");
  }
  Handle handle;
  handle.family = family == kSix ? AF_INET6 : AF_INET;
  handle.carrier = static_cast<Carrier>(carrier);
  handle.port = load_le<uint16_t>(bytes, kPortAt);
  std::copy_n(bytes.begin() + kAddressAt, handle.address.size(), handle.address.begin());
  handle.listener_id = load_le<uint64_t>(bytes, kListenerAt);
  std::copy_n(bytes.begin() + kSecretAt, kSecretBytes, handle.secret.begin());
  const std::string_view padded = as_text(bytes.subspan(kWhoAt, kMaxWhoBytes));
  handle.who = printable(padded.substr(0, padded.find('\0')), kMaxWhoBytes);
  if (handle.port == 0) {
    return bad("it has no port");
  }
  HORING_TRY(check_address(handle));
  return handle;
}

uint64_t local_id(std::span<const std::byte, kHandleBytes> bytes) {
  return load_le<uint64_t>(bytes, kWireHandleBytes);
}

void set_local_id(std::span<std::byte, kHandleBytes> bytes, uint64_t id) {
  store_le(bytes, kWireHandleBytes, id);
}

}  // namespace ho::plugin
